"""Recorded calls of all runs, and where they are kept."""
