"""Who gets which letters."""
