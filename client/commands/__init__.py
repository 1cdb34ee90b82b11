"""The commands, by what they do. client/main.py names each and imports its module when it is called.

running.py     demo, run, start: begin a shift
serving.py     up, worker: the processes that shifts need
looking.py     list, state, watch, result, transcript: look at shifts
answering.py   approve, deny, resolve: answer what a shift asks
steering.py    stop, pause, resume, limits, tell: change a shift
funds.py       funds: list, set and raise shared budgets
diagnosing.py  doctor: look whether all is there that shifts need
replaying.py   replay: play cases
evaluating.py  eval: judge shifts by evidence
auditing.py    audit, journal rebuild: check a shift, and make its journal anew
reporting.py   report: a shift, or many, as an HTML page
completing.py  completion: scripts for shells
session.py     a client for the time of one command, and the options that commands share
given.py       limits and other values as people write them
failing.py     errors as sentences
"""
