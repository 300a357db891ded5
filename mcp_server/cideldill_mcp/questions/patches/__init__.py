"""Texts of files that are changed, or were: patches of clients, unified diffs, what git says."""
