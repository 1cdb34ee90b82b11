"""The same shift by others, each as its documentation has it, in an environment of their own (requirements.txt).

pydantic_ai.py    pydantic-ai with TemporalDurability: a Temporal worker
openai_agents.py  the OpenAI Agents SDK on Temporal: a Temporal worker
langgraph.py      LangGraph with SQLite checkpoints: a process that does one shift
dbos.py           DBOS with SQLite: a process that does one shift
alone.py          what the last two have in common
plot.py           the plot of cost per step against step number
"""
