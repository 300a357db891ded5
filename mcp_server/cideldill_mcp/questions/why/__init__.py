"""`test_why`: everything that is to be found about one failing test."""
