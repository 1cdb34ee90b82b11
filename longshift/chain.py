"""The hash chain over a run's messages: each link covers a message, its number and the link before it.

The workflow carries the latest link, the journal holds all of them; both compute them with `extend`, so that a
journal that was changed, cut or reordered no longer ends where the workflow says it must.
"""

from longshift import jsontext
from longshift.messages import Payload, Weight

GENESIS = jsontext.sha256("longshift message chain, version 1")
"""The link before a run's first message."""


class Head(Payload):
    """Where a chain ends."""

    length: int = 0
    """Messages in the chain."""
    digest: str = GENESIS
    """The latest link, hex SHA-256."""


def extend(head: Head, weight: Weight) -> Head:
    """The head after one more message, of which only the digest is needed."""
    link = jsontext.sha256(f"{head.digest}\n{head.length}\n{weight.sha256}")
    return Head(length=head.length + 1, digest=link)
