"""How events leave the test process and commands come in: links, sinks, the log of rows."""
