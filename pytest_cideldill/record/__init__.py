"""What outlives the process that made it: stored objects, and how one looks into them.

Used by the process under test, which writes, and by the front end, which reads. Standard library
only; nothing here makes an object of the user's again or runs his code.
"""
