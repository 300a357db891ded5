"""Removes secrets from all that leaves the process under test, by name, by shape and by value.

The process under test uses it, and the front end for texts that it reads itself. Needs the standard
library only; runs on any thread, takes no lock, runs no code of the program.
"""
