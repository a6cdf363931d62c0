"""Nothing that says it is secret, and no password of an address, reaches a page or a log."""

import logging
from collections.abc import Iterator

import pytest
from django.test import override_settings

from jobs.secrecy import (
    HIDDEN,
    WithoutSecrets,
    _pattern,
    blotted,
    cleansed,
    kept_secret,
    known,
    without_passwords,
    without_secrets,
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


@pytest.mark.parametrize("name", ["author", "passed", "authors_seen", "passengers", "secret_args"])
def test_a_name_that_only_sounds_secret_is_shown(name: str) -> None:
    assert cleansed({name: "seen"}) == {name: "seen"}


def test_marked_names_are_hidden_at_any_depth() -> None:
    shown = cleansed({"a": [{"recipe": WORD, "table": "orders"}]}, also=["recipe"])
    assert shown == {"a": [{"recipe": HIDDEN, "table": "orders"}]}


def test_values_are_kept_secret_as_long_as_their_function_runs() -> None:
    args, config = {"recipe": "a+b c", "n": 12345, "short": "abc"}, {"secret_args": ["recipe", "n", "short"]}
    with kept_secret(args, config):
        with kept_secret(args, config):
            pass
        assert without_secrets("a+b c, a%2Bb%20c, 12345, abc") == f"{HIDDEN}, {HIDDEN}, {HIDDEN}, abc"
        assert blotted({"a+b": ["a+b c", 1]}) == {"a+b": [HIDDEN, 1]}
    assert without_secrets("a+b c") == "a+b c"


def test_without_arguments_nothing_is_kept() -> None:
    with kept_secret({}, {"secret_args": ["recipe"]}), kept_secret({"recipe": "salt"}, {}):
        assert without_secrets("salt") == "salt"


@pytest.fixture
def anew() -> Iterator[None]:
    """The secrets of settings are read once; here they change."""
    for each in (known, _pattern):
        each.cache_clear()
    yield
    for each in (known, _pattern):
        each.cache_clear()


@pytest.mark.usefixtures("anew")
def test_secrets_of_settings_are_blotted_out_by_value() -> None:
    planted = {
        "CELERY_BROKER_URL": "sentinel://:first-word@a:1;sentinel://:other%2Fword@b:1",
        "CACHES": {"default": {"OPTIONS": {"PASSWORD": "third-word"}}},
        "SECRET_KEY_FALLBACKS": ["fourth-word"],
        "SHOP_API_KEY": "fifth-word",
    }
    with override_settings(**planted):
        text = "first-word other%2Fword other/word third-word fourth-word fifth-word plain"
        assert without_secrets(text) == " ".join([*[HIDDEN] * 6, "plain"])
        assert without_secrets("auth.User django.contrib.auth") == "auth.User django.contrib.auth"
