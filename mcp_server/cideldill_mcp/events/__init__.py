"""The event log of all runs, and the file it spills into."""
