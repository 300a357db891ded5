"""The pytest side of a run in the process under test: small plugins, one concern each."""
