"""The shop's agent."""

from examples.shop.tools import draft_order, list_stock, product
from longshift import Agent

agent = Agent(
    name="shop",
    system="Prepare replenishment drafts with the tools. Drafts are proposals, never purchases.",
    endpoint="authored",
    tools=(list_stock, product, draft_order),
)
