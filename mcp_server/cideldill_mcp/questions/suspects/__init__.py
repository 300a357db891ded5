"""`test_suspects`: functions that failing tests run and passing ones do not, ranked."""
