"""Intercepts calls: swapped code, trampolines, wrapped callables of C."""
