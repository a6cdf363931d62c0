"""Secret values and the credentials of URLs are hidden in texts, documents and log lines."""

import json
import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from punctual.jobs.redaction import (
    HIDDEN,
    MIN_DISGUISED_LENGTH,
    MIN_LENGTH,
    RedactingFilter,
    _secrets,
    hide_secret_args,
    redact_addresses,
    redact_document,
    redact_text,
    redact_values,
    settings_secrets,
    spellings,
)

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
def test_the_credentials_of_a_url_are_hidden(text: str) -> None:
    redacted = redact_addresses(text)
    assert WORD not in redacted
    assert HIDDEN in redacted


@pytest.mark.parametrize("text", ["https://example.org/a@b", "mail me@example.org", "no address", ""])
def test_text_without_credentials_is_unchanged(text: str) -> None:
    assert redact_addresses(text) == text


@pytest.mark.parametrize("name", ["password", "API_KEY", "accessToken", "authorization", "client_secret"])
def test_a_value_that_is_secret_by_name_is_hidden_at_any_depth(name: str) -> None:
    redacted = redact_document({"a": [{"b": {name: WORD}}], "plain": "seen"})
    assert WORD not in str(redacted)
    assert redacted["plain"] == "seen"
    assert redact_document({name: {"inner": WORD}}) == {name: HIDDEN}


def test_empty_values_are_unchanged() -> None:
    assert redact_document({"password": None, "n": 3, "ok": True}) == {"password": None, "n": 3, "ok": True}


def test_the_password_is_hidden_in_a_log_line_and_its_traceback() -> None:
    error = ConnectionError(f"redis://u:{WORD}@h: refused")
    exc_info = (type(error), error, None)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "lost %s", (f"redis://u:{WORD}@h/0",), exc_info)
    assert RedactingFilter().filter(record)
    line = logging.Formatter("%(message)s").format(record)
    assert "lost redis://" in line
    assert "refused" in line
    assert WORD not in line


@pytest.mark.parametrize("name", ["author", "passed", "authors_seen", "passengers", "secret_args"])
def test_a_name_that_only_resembles_a_secret_one_is_shown(name: str) -> None:
    assert redact_document({name: "seen"}) == {name: "seen"}


def test_values_of_listed_names_are_hidden_at_any_depth() -> None:
    redacted = redact_document({"a": [{"recipe": WORD, "table": "orders"}]}, also=["recipe"])
    assert redacted == {"a": [{"recipe": HIDDEN, "table": "orders"}]}


def test_secret_arguments_are_hidden_while_their_function_runs() -> None:
    args, config = {"recipe": "a+b c", "n": 12345, "short": "abc"}, {"secret_args": ["recipe", "n", "short"]}
    with hide_secret_args(args, config):
        with hide_secret_args(args, config):
            pass
        assert redact_text("a+b c, a%2Bb%20c, 12345, abc") == f"{HIDDEN}, {HIDDEN}, {HIDDEN}, abc"
        assert redact_values({"a+b": ["a+b c", 1]}) == {"a+b": [HIDDEN, 1]}
    assert redact_text("a+b c") == "a+b c"


def test_without_secret_arguments_nothing_is_hidden() -> None:
    with hide_secret_args({}, {"secret_args": ["recipe"]}), hide_secret_args({"recipe": "salt"}, {}):
        assert redact_text("salt") == "salt"


@pytest.fixture
def fresh_cache() -> Iterator[None]:
    """Clear the cached secrets of settings, which the test changes."""
    for cached in (settings_secrets, _secrets):
        cached.cache_clear()
    yield
    for cached in (settings_secrets, _secrets):
        cached.cache_clear()


@pytest.mark.usefixtures("fresh_cache")
def test_secrets_of_settings_are_hidden_by_value() -> None:
    secrets = {
        "CELERY_BROKER_URL": "sentinel://:first-word@a:1;sentinel://:other%2Fword@b:1",
        "CACHES": {"default": {"OPTIONS": {"PASSWORD": "third-word"}}},
        "SECRET_KEY_FALLBACKS": ["fourth-word"],
        "SHOP_API_KEY": "fifth-word",
    }
    with override_settings(**secrets):
        text = "first-word other%2Fword other/word third-word fourth-word fifth-word plain"
        assert redact_text(text) == " ".join([*[HIDDEN] * 6, "plain"])
        assert redact_text("auth.User django.contrib.auth") == "auth.User django.contrib.auth"


# -- disguised secrets ------------------------------------------------------------

SECRET = "Kühl & süß/+?=Top"  # noqa: S105 - of these tests
CONFIG = {"secret_args": ["recipe"]}


def redacted(text: str, secret: object = SECRET) -> str:
    with hide_secret_args({"recipe": secret}, CONFIG):
        return redact_text(text)


@pytest.mark.parametrize(
    "disguise",
    [
        str.upper,
        str.lower,
        str.swapcase,
        lambda text: text[::-1],
        lambda text: text[::-1].upper(),
        quote,
        quote_plus,
        lambda text: quote(text, safe="").lower(),
        lambda text: json.dumps(text)[1:-1],
        lambda text: repr(text)[1:-1],
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
    ],
)
def test_a_disguised_secret_is_hidden(disguise: Callable[[str], str]) -> None:
    assert redacted(f"before {disguise(SECRET)} after") == f"before {HIDDEN} after"


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_a_secret_inside_base64_is_hidden(encode: Callable[[bytes], bytes], before: str, after: str) -> None:
    text = encode(f"{before}{SECRET}{after}".encode()).decode()
    shown = redacted(f"Authorization: Basic {text}")
    assert HIDDEN in shown
    assert len(shown.replace(HIDDEN, "")) <= len("Authorization: Basic ") + len(before + after) * 2 + 4


@given(st.text(min_size=MIN_DISGUISED_LENGTH, max_size=20), st.binary(max_size=4), st.binary(max_size=4))
def test_every_base64_that_contains_a_secret_contains_one_of_its_spellings(
    secret: str, before: bytes, after: bytes
) -> None:
    text = b64encode(before + secret.encode(errors="replace") + after).decode()
    assert any(spelling in text for spelling in spellings(secret))


def test_short_secrets_are_hidden_only_as_they_are() -> None:
    assert redacted("post Post tsop", "post") == f"{HIDDEN} Post tsop"
    assert spellings("x" * (MIN_LENGTH - 1)) == set()


def test_numbers_are_hidden_only_as_they_are() -> None:
    assert redacted("12345678 87654321", 12345678) == f"{HIDDEN} 87654321"


def test_a_secret_that_begins_another_leaves_nothing_of_it() -> None:
    with hide_secret_args({"recipe": ["abcdefgh", "abcdefghijkl"]}, CONFIG):
        assert redact_text("ABCDEFGHIJKL abcdefgh") == f"{HIDDEN} {HIDDEN}"


def test_other_text_is_unchanged() -> None:
    text = "Kühl und süß, aber nicht geheim: QWxhZGRpbg=="
    assert redacted(text) == text
