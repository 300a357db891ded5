"""Follows a value and the object behind it through a test, for the question `test_watch`."""
