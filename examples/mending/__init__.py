"""Mending, a coding shift: find the bug in a small project and fix it until its tests pass.

project/        the project with its bug, a template: the shift works on a copy of it, `work`
mender.py       the agent
evidence.py     the independent check of whether the tests pass
turns.json      authored turns of the shift, for a replay endpoint
longshift.toml  puts them together; run from here
"""
