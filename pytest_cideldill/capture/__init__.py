"""Live objects to plain values: rendering, and evaluation in a paused frame.

Everything here runs in the process under test, on the thread that hit, and never under a lock. It
must not know probes, pauses, the log or the wire.
"""
