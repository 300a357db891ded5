"""Breakpoints that clients want: their kinds, the collection, places in edited files."""
