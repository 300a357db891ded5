"""Values to text, without running code of the program: one line, a tree, the text of exceptions."""
