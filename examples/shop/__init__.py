"""The ice-cream shop, the demonstration: look at the stock, draft what is needed, explain.

tools.py     what the agent can do
agent.py     the agent
turns.json   authored turns of the opening shift, for a replay endpoint
evidence.py  the independent check of what a shift drafted
"""
