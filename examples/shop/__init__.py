"""The ice-cream shop, the demonstration: look at the stock, draft what is needed, explain; or order it.

tools.py          what the agents can do
agent.py          the agents `shop` and `buyer`
turns.json        authored turns of the opening shift, for a replay endpoint
buyer_turns.json  authored turns of a shift that orders
supplier.py       a supplier to order from: python -m examples.shop.supplier
evidence.py       the independent checks of what a shift drafted and ordered
"""
