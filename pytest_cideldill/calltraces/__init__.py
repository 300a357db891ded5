"""The life of calls, recorded for a question: the tree of a test's calls, the lines of one call."""
