"""What hides secrets, in all that leaves the process under test.

Standard library only; knows texts and names, not where they come from.
"""
