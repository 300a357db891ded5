"""Reads what users configure: options, settings, limits; starts the server instead of a run."""
