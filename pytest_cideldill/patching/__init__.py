"""Interception of calls: swapped code, trampolines, wrapped callables of C."""
