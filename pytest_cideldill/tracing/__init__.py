"""Sources of events: lines, calls and raises, by `sys.monitoring` or `sys.settrace`."""
