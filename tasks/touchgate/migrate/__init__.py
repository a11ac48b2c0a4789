"""`touchgate migrate`: a gate job becomes a first step in each job that waited for it.

tree (YAML with spans) and expressions read; jobs and gates say what a workflow and its gate jobs mean; guard decides
which jobs can be guarded; edits changes only the text that must change; verify reads the result again; cli tells.
"""
