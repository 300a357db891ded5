"""`test_trace`: the calls of a test as a tree, and the life of one call, line by line."""
