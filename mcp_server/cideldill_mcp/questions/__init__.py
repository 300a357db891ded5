"""Questions: whole answers about tests, from processes of their own."""
