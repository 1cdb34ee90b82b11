"""The hash chain: every change of a message, its order or its number shows in the head."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from longshift.chain import GENESIS, Head, extend
from longshift.messages import UserMessage, Weight, weigh

DIGESTS = st.lists(st.integers(0, 3), max_size=8)


def chain(*texts: str) -> Head:
    """The head over users' messages."""
    head = Head()
    for text in texts:
        head = extend(head, weigh(UserMessage(content=text)))
    return head


def test_a_link_is_the_sha_256_of_the_link_before_the_number_and_the_messages_digest() -> None:
    first = hashlib.sha256(b'{"content":"One.","role":"user"}').hexdigest()
    link = hashlib.sha256(f"{GENESIS}\n0\n{first}".encode()).hexdigest()
    assert chain("One.") == Head(length=1, digest=link)
    second = hashlib.sha256(b'{"content":"Two.","role":"user"}').hexdigest()
    assert chain("One.", "Two.").digest == hashlib.sha256(f"{link}\n1\n{second}".encode()).hexdigest()


def test_an_empty_chain_ends_at_the_genesis() -> None:
    assert (chain().length, chain().digest) == (0, GENESIS)
    assert hashlib.sha256(b"longshift message chain, version 1").hexdigest() == GENESIS


@given(DIGESTS, DIGESTS)
def test_two_transcripts_have_one_head_only_if_they_are_the_same(one: list[int], other: list[int]) -> None:
    assert (chain(*map(str, one)) == chain(*map(str, other))) == (one == other)


def test_only_the_digest_of_a_message_is_needed() -> None:
    weight = weigh(UserMessage(content="One."))
    assert extend(Head(), Weight(bytes=0, sha256=weight.sha256)) == chain("One.")
