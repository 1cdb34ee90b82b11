"""What a tool's exception becomes for the model: its kind, and a message without paths and secrets."""

import httpx
import pytest

from longshift.exceptions import MAX_MESSAGE, from_exception
from longshift.tools import ToolError, ToolFatal, ToolNotFound, ToolOutcomeUnknown, ToolRefused, ToolTransient


class Unspeakable(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


class HasStatus(Exception):
    """An exception like those of HTTP clients."""

    def __init__(self, status: int) -> None:
        self.response = httpx.Response(status)


REQUEST = httpx.Request("GET", "http://127.0.0.1/")


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (ToolRefused("only 6, see /a/b.txt, token=abc"), "refused", "only 6, see /a/b.txt, token=abc"),
        (ToolNotFound("no such sku"), "not_found", "no such sku"),
        (ToolTransient("busy"), "transient", "busy"),
        (ToolFatal("no access"), "fatal", "no access"),
        (ToolError("plain"), "exception", "plain"),
        (ToolRefused(), "refused", "ToolRefused"),
        (ValueError("bad"), "exception", "ValueError: bad"),
        (KeyError("sku"), "exception", "KeyError: 'sku'"),
        (AssertionError(), "exception", "AssertionError"),
        (Unspeakable(), "exception", "Unspeakable"),
        (ConnectionResetError(104, "reset by peer"), "transient", "ConnectionResetError: [Errno 104] reset by peer"),
        (TimeoutError(), "transient", "TimeoutError"),
        (PermissionError(13, "denied"), "fatal", "PermissionError: [Errno 13] denied"),
        (httpx.ConnectError("refused"), "transient", "ConnectError: refused"),
        (httpx.ReadTimeout("slow"), "transient", "ReadTimeout: slow"),
        (httpx.UnsupportedProtocol("ftp"), "exception", "UnsupportedProtocol: ftp"),
        (ExceptionGroup("g", [ValueError("a")]), "exception", "ValueError: a"),
        (ExceptionGroup("g", [TimeoutError("a"), TimeoutError("b")]), "transient", "TimeoutError: a; TimeoutError: b"),
        (ExceptionGroup("g", [TimeoutError("a"), ValueError("b")]), "exception", "TimeoutError: a; ValueError: b"),
    ],
)
def test_an_exception_has_a_kind_and_a_message(raised: BaseException, kind: str, message: str) -> None:
    assert from_exception(raised) == (kind, message)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "transient"), (503, "transient"), (529, "transient"), (401, "fatal"), (403, "fatal"), (404, "exception")],
)
def test_an_http_status_decides_the_kind(status: int, kind: str) -> None:
    assert from_exception(HasStatus(status))[0] == kind
    response = httpx.Response(status, request=REQUEST)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert from_exception(caught.value)[0] == kind


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionResetError("dropped"), "outcome_unknown"),
        (TimeoutError(), "outcome_unknown"),
        (httpx.ReadTimeout("slow"), "outcome_unknown"),
        (httpx.RemoteProtocolError("cut"), "outcome_unknown"),
        (HasStatus(500), "outcome_unknown"),
        (HasStatus(504), "outcome_unknown"),
        (ConnectionRefusedError("nobody"), "transient"),
        (httpx.ConnectError("refused"), "transient"),
        (httpx.ConnectTimeout("slow"), "transient"),
        (HasStatus(429), "transient"),
        (HasStatus(503), "transient"),
        (ToolTransient("the author says that nothing was done"), "transient"),
        (ToolOutcomeUnknown("no reply"), "outcome_unknown"),
        (HasStatus(401), "fatal"),
        (HasStatus(404), "exception"),
        (ValueError("bad"), "exception"),
    ],
)
def test_what_breaks_off_an_effect_leaves_its_outcome_unknown(raised: Exception, kind: str) -> None:
    assert from_exception(raised, effect=True)[0] == kind


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[Errno 2] No such file: '/home/me/shop/notes.txt'", "[Errno 2] No such file: '.../notes.txt'"),
        ("'/home/my user/s p.txt'", "'.../s p.txt'"),
        ("in /usr/lib/python3/x.py, line 3", "in .../x.py, line 3"),
        ("file:///home/me/x.txt", ".../x.txt"),
        ("~/keys/id", ".../id"),
        (r"C:\Users\me\x.txt", ".../x.txt"),
        ("1/2 and/or a / b </div>", "1/2 and/or a / b </div>"),
        ("https://host.example/a/b", "https://host.example/a/b"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: ***"),
        ("sent Bearer abcdefgh12345", "sent Bearer ***"),
        ("OPENAI_API_KEY=planted", "OPENAI_API_KEY=***"),
        ("{'password': 'two words', 'user': 'me'}", "{'password': ***, 'user': 'me'}"),
        ("https://h.example/?api_key=planted&page=2", "https://h.example/?api_key=***&page=2"),
        ("postgres://me:planted@host/db", "postgres://***@host/db"),
        ("key sk-planted-0123456789", "key ***"),
        ("max_tokens=5", "max_tokens=5"),
    ],
)
def test_paths_and_secrets_do_not_reach_a_message(text: str, shown: str) -> None:
    message = from_exception(RuntimeError(text))[1]
    assert message.endswith(shown)
    assert "planted" not in message


def test_a_message_of_megabytes_is_cut() -> None:
    for text in ("x" * 3_000_000, "password" * 400_000, "/" * 3_000_000, "a/" * 1_000_000, "='" * 1_000_000):
        assert len(from_exception(RuntimeError(text))[1]) <= MAX_MESSAGE
