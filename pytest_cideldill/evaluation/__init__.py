"""Evaluates expressions of clients within limits: the console, conditions, messages."""
