"""Frames, threads, tasks and exceptions as plain data."""
