"""The agents of the soak: they look at the stock, order from the supplier, and look again."""

from examples.shop.tools import list_stock, product
from longshift import Agent
from tests.acceptance import order_agent


def _agent(ordering: Agent) -> Agent:
    tools = (list_stock, product, *ordering.tools)
    return ordering.model_copy(update={"name": f"soak-{ordering.name}", "endpoint": "soak", "tools": tools})


plain = _agent(order_agent.plain)
keyed = _agent(order_agent.keyed)
