"""The reliability lab, on top of the client: the arithmetic of long runs, and labs that show it on the real workflow.

formulas.py   what can be expected of many steps, and what measurements allow to say
trials.py     one run on the real workflow with a scripted model, and what came of it
models.py     the scripted models: each decides by what it reads
tools.py      the tools and the agents of the labs
baselines.py  what the labs are held against: a loop without guards, and no loop
labs.py       the labs: what each proves, how it is run, the figures that must come out
budgets.py    limits from what runs took, those that were cut off among them
measuring.py  longshift lab budgets
command.py    longshift lab
"""
