"""The reliability lab, on top of the client: the arithmetic of long runs, labs that show it on the real workflow, an
experiment that measures a model, and limits from measurements.

formulas.py     what can be expected of many steps, and what measurements allow to say
trials.py       one run on the real workflow with a scripted model, and what came of it
models.py       the scripted models: each decides by what it reads
tools.py        the tools and the agents of the labs
baselines.py    what the labs are held against: a loop without guards, and no loop
labs.py         the labs: what each proves, how it is run, the figures that must come out
stock.py        the experiment's task, its three conditions, and how a run is graded
plan.py         the runs that an experiment takes
fan_out.py      the workflow that sees them to their ends
experiment.py   server, worker and journal of an experiment, and what came of its runs
identity.py     what the measured endpoint answers to what it is
rate.py         so many of so many, with its interval
decay.py        whether success falls with length as independent steps have it
analysis.py     what the grades support, in figures and in words
pictures.py     the same as pictures
receipt.py      the same as a document, with every run
page.py         the same as a page
reliability.py  longshift lab reliability
needs.py        what a run needed of each thing that a limit bounds
budgets.py      limits from what runs took, those that were cut off among them
measuring.py    longshift lab budgets
command.py      longshift lab
"""
