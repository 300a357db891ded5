"""The console script `cideldill`."""
