"""The typed client's side of funds. They stand in the workers' journal, so no Temporal server is asked."""

from client.ending import open_journal
from client.errors import Refused
from longshift.funds import AmountRefused, Fund
from store.errors import FundRefused


class Funds:
    """The funds of one journal. Amounts are micro-USD.

    Every method raises NoJournal where the journal cannot be used.
    """

    def __init__(self, journal_url: str) -> None:
        self._journal_url = journal_url

    async def list(self) -> list[Fund]:
        """All funds, by name."""
        async with open_journal(self._journal_url) as journal:
            return await journal.funds()

    async def set(self, name: str, budget: int) -> Fund:
        """Give a fund a budget, and make it, and the journal, where there is none. Returns how it stands then; a budget
        below what is used lets no further call begin."""
        async with open_journal(self._journal_url, make=True) as journal:
            return await journal.set_fund(name, budget)

    async def raise_by(self, name: str, amount: int, request_id: str) -> Fund:
        """Add to a fund's budget, once for each request id of the fund's last 50 raises. Returns how it stands then.

        Raises Refused for an unknown fund, and for more than a budget may be.
        """
        async with open_journal(self._journal_url) as journal:
            try:
                return await journal.raise_fund(name, amount, request_id)
            except FundRefused as refused:
                raise Refused(str(refused)) from None
            except AmountRefused as refused:
                raise Refused(f"amount: {refused}") from None
