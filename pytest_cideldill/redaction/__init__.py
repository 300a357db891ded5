"""Secrets out of all that leaves the process under test: recognized by name, by shape, by value.

Used by the process under test, and by the front end for what it reads itself. Standard library
only; runs on any thread, takes no lock, runs no code of the program.
"""
