"""`test_source`: functions and classes as written, with how often a test ran each line."""
