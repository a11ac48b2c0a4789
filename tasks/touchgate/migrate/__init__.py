"""`touchgate migrate`: a gate job becomes a first step in each job that waited for it.

tree (YAML with spans) and expressions read; jobs says what a workflow's jobs are; deciders finds the gate jobs, and with
tools and filters what each decides (gates holds the values); readings and formulas take each job's condition apart, room
and onlookers say what stands against a change, and guard decides which jobs can be guarded; edits changes only the text
that must change; verify reads the result again; whole does it all for one file; cli tells.
"""
