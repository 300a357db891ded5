"""`test_watch`: the changes of one value in a test, and the code that made them."""
