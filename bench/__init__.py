"""What a shift costs, as ratios to a floor measured in the same run. docs/performance.md says how to run and read it.

script.py        the shift that all do: turns and observations
material.py      Longshift's agent for it; model_server.py: the same turns over HTTP
floor.py         the floor and the naive one: bare workflows, and their worker
peers/           the same shift by other systems, in an environment of their own
subjects.py      who does it, and how their workers are started
shifts.py        all of them in turn, measured
crowds.py        many shifts at once; resumes.py: a killed worker; starts.py: how long processes take to start
histories.py     what a history weighs; processes.py, stores.py: what a worker uses and stores
samples.py       what is measured, as it is kept
series.py        cost against step number
table.py         the figures as Markdown; document.py: in docs/
environments.py  versions and machine, and how the peers are installed
kills.py         orders interrupted at every point
"""
