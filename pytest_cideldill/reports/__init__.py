"""A recorded run for people: its digest, a page, the terminal, Markdown for CI."""
