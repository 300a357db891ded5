"""`test_experiment`: what becomes of tests if something were otherwise."""
