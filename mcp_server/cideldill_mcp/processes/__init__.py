"""Processes of tests: how they are started, connect, and are ended."""
