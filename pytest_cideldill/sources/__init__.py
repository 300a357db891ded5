"""Where events of the program under test come from.

`events` is the interface that hides the Python version: lines, starts of code, ends of modules and
calls, from `sys.monitoring` (`monitoring`, 3.12 and later) or `sys.settrace` (`tracing`, 3.11);
what both share is in `base`. `installer` puts a tracer on all threads, beside coverage's.
`interpose` swaps `__code__` for calls that may change. No source knows what is done with an event.
"""
