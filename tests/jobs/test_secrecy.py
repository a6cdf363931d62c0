"""Nothing that says it is secret, and no password of an address, reaches a page or a log."""

import logging

import pytest

from jobs.secrecy import HIDDEN, WithoutSecrets, cleansed, without_passwords

pytestmark = pytest.mark.req("OPS-7")

WORD = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"redis://:{WORD}@cache:6379/0",
        f"cannot reach postgres://app:{WORD}@db/app?sslmode=require now",
        f"amqps://user:{WORD}@mq//, redis+socket://x:{WORD}@/tmp/s",
    ],
)
def test_an_address_loses_its_password_and_keeps_its_place(text: str) -> None:
    shown = without_passwords(text)
    assert WORD not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize("text", ["https://example.org/a@b", "mail me@example.org", "no address", ""])
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert without_passwords(text) == text


@pytest.mark.parametrize("name", ["password", "API_KEY", "accessToken", "authorization", "client_secret"])
def test_a_value_that_is_secret_by_name_is_hidden_at_any_depth(name: str) -> None:
    shown = cleansed({"a": [{"b": {name: WORD}}], "plain": "seen"})
    assert WORD not in str(shown)
    assert shown["plain"] == "seen"
    assert cleansed({name: {"inner": WORD}}) == {name: HIDDEN}


def test_what_is_empty_stays_empty() -> None:
    assert cleansed({"password": None, "n": 3, "ok": True}) == {"password": None, "n": 3, "ok": True}


def test_a_log_line_and_its_traceback_lose_the_password() -> None:
    error = ConnectionError(f"redis://u:{WORD}@h: refused")
    found = (type(error), error, None)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "lost %s", (f"redis://u:{WORD}@h/0",), found)
    assert WithoutSecrets().filter(record)
    line = logging.Formatter("%(message)s").format(record)
    assert "lost redis://" in line
    assert "refused" in line
    assert WORD not in line
