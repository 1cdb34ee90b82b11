"""What can go wrong with a journal. Nothing of SQLAlchemy or a driver leaves this room.

JournalError
|-- JournalUnavailable   it cannot be reached, read or written now, or is another one; the message names the remedy
|-- FundRefused          a fund does not pay, or is not there; the message names the remedy
`-- JournalMismatch      what it holds is not what the workflow says it must hold; trying again does not help
    `-- PlaceTaken       the place of a call is another one's, which was made before the workflow was reset
"""


class JournalError(Exception):
    """Root of this tree."""


class JournalUnavailable(JournalError):
    """The database cannot be used now: away, locked, full, refused, of a newer version, or not the journal that was
    open or that a run began in. The message names its URL without a password, and the remedy."""


class JournalMismatch(JournalError):
    """The journal and the workflow disagree about a run. Final; the message names the run and the row."""


class PlaceTaken(JournalMismatch):
    """The row of a tool call belongs to another call, made before the workflow was reset and went another way."""


class FundRefused(JournalError):
    """A fund has too little left for a call, nobody can say what that costs, or there is no such fund. Nothing was
    changed; the message names the fund, the figures and the remedy."""
