"""`touchgate replay`: the last merges of a repository, judged once more, and beside them what another gate says.

history picks the merges, judging asks the gate about each, theirs runs the other gate, comparing finds where they
disagree, telling shows it. Only commits are read; the working tree is never written.
"""
