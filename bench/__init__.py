"""What a shift costs, as ratios to a floor measured in the same run.

material.py   the shift that both do: turns, observations, the agent
floor.py      the floor: a bare Temporal workflow, and its worker
histories.py  what a history weighs, step by step
processes.py  workers as processes of their own, and what CPU they used
shifts.py     runs both in turn and measures them
starts.py     how long processes take to start
table.py      the figures as text
"""
