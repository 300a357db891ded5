"""Gives access to the interpreter past patches of tests: clocks, files, descriptors, borders."""
