"""All SQL of the house: the journal of every run.

journal.py      the face: `Journal`, one transaction a method
runs.py         runs opened, closed, listed
calls.py        model calls and tool calls, and what came of them
confirming.py   appending what a workflow confirmed, and replacing the way that a reset left
transcripts.py  reading messages, each proved by its link; checking a whole chain
tables.py       the tables
engine.py       reaching SQLite or PostgreSQL; the border to the drivers
migrations/     the schema's history
errors.py       what can go wrong
"""
