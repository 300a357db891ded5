"""`test_diff`: where two tests, or one test in two runs, first do something else."""
