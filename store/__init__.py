"""All SQL of the house: the journal of every run.

journal.py      the face: `Journal`, one transaction a method
runs.py         runs opened, closed, listed
calls.py        model calls, and what came of them
tool_calls.py   tool calls, and what they observed
ledger.py       effects: begun, fenced, settled
funds.py        budgets that runs share
memory.py       what is remembered of calls in a workflow's place
confirming.py   appending what a workflow confirmed, and replacing the way that a reset left
transcripts.py  reading messages, each proved by its link; checking a whole chain
rebuilding.py   the rows of a run, put in place whole
examining.py    whether a database is a journal, without changing it
prepared.py     statements of a step, compiled once
tables.py       the tables
engine.py       reaching SQLite, or PostgreSQL
postgres.py     reaching PostgreSQL
database.py     what both do; the border to the drivers, and what helps where one refuses
migrations/     the schema's history
errors.py       what can go wrong
"""
