"""Renders values as text, without running code of the program: one line, trees, exceptions."""
