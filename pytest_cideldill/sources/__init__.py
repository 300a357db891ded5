"""Where events come from: `sys.monitoring`, trace functions and swapped code objects.

Everything here runs in the process under test, on the thread that hit, and is given callables: it
must not know the manager, the gate or the log.
"""
