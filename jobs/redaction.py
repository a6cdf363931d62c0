"""Redact secrets in text and documents before they reach a page, a log or the ledger (OPS-7).

There are three rules. A value with a secret name is hidden: `password`, `token`, `api_key`, `authorization`
and similar names, the names that Django hides, and those in a job's `secret_args`. The user and password of
a URL are hidden in any text. Values known to be secret, from settings and from the arguments of running
functions, are hidden wherever they occur, in any case: as they are, quoted as in URLs, in JSON and in Python,
reversed, and encoded as hexadecimal or base64.
"""

import json
import logging
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from django.conf import settings

HIDDEN = "••••••••"
SECRET_NAME = re.compile(
    r"api_?key|auth(?!ors?($|_))|credential|pass(?!(ed|es|ing|ive|engers?)($|_))|private"
    r"|secret(?!_args$)|signature|token",
    re.IGNORECASE,
)
# Values of settings are hidden everywhere, so only unmistakable names count.
SECRET_SETTING = re.compile(
    r"(^|_)(password|passwd|secret|secret_key|secret_key_fallbacks|token|api_?key|private_key)$",
    re.IGNORECASE,
)
URL_CREDENTIALS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@'\"]*@", re.IGNORECASE)

MIN_LENGTH = 4  # shorter values occur in ordinary text
MIN_DISGUISED_LENGTH = 6  # so do other cases, reversals and encodings of these

# Secret arguments of functions that run in any thread of this process, with their number of users.
_active_secrets: Counter[str] = Counter()
_lock = Lock()


def redact_text(text: str) -> str:
    """Hide known secrets and the credentials of URLs in a text."""
    secrets, lowered = _secrets(frozenset(_active_secrets)), text.lower()
    # A hundred searches take less time than one of a pattern with a hundred branches, and rarely find any.
    if present := [pattern for secret, pattern in secrets if secret in lowered]:
        text = re.sub("|".join(present), HIDDEN, text)
    return redact_addresses(text)


def redact_addresses(text: str) -> str:
    """Hide the credentials of URLs: `redis://user:word@host/0` becomes `redis://••••••••@host/0`."""
    return URL_CREDENTIALS.sub(rf"\g<scheme>{HIDDEN}@", text) if "://" in text else text


def redact_document(value: Any, name: str = "", *, also: Collection[str] = ()) -> Any:
    """Hide values by name, at any depth: secret names and those in `also`. Other texts are redacted."""
    if name and (name in also or SECRET_NAME.search(name)) and value not in (None, "", [], {}):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: redact_document(inner, str(key), also=also) for key, inner in value.items()}
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [redact_document(inner, also=also) for inner in value]
    return value


def secret_args(*configs: Mapping[str, Any]) -> set[str]:
    """Collect the secret names of several configurations, such as planned and current."""
    return {name for config in configs for name in config.get("secret_args", ())}


def redact_values(value: Any) -> Any:
    """Hide known secrets in the texts of a document, whatever their names; for documents to be stored."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {key: redact_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_values(inner) for inner in value]
    return value


@contextmanager
def hide_secret_args(args: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[None]:
    """Hide the values of an occurrence's secret arguments in every text, for the length of the context."""
    names = config.get("secret_args", ())
    values = [*_secret_texts(args, lambda name: name in names or SECRET_NAME.search(name))]
    with _lock:
        _active_secrets.update(values)
    try:
        yield
    finally:
        with _lock:
            _active_secrets.subtract(values)
            for value in set(values):
                if not _active_secrets[value]:
                    del _active_secrets[value]


def _secret_texts(
    value: Any, is_secret: Callable[[str], object], name: str = "", *, secret: bool = False
) -> Iterator[str]:
    """Find every secret text in a document, in all its spellings."""
    secret = secret or bool(name and is_secret(name))
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secret_texts(inner, is_secret, str(key), secret=secret)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secret_texts(inner, is_secret, secret=secret)
    elif secret and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield from spellings(value)


def spellings(value: str | float) -> set[str]:
    """Every way to write the value; numbers, which are short and occur everywhere, as they are."""
    text = str(value)
    if len(text) < MIN_LENGTH:
        return set()
    quoted = {text, quote(text), quote(text, safe=""), quote_plus(text), unquote(text)}
    quoted |= {repr(text)[1:-1], json.dumps(text)[1:-1]}
    if isinstance(value, str) and len(text) >= MIN_DISGUISED_LENGTH:
        upper = text.upper()  # of another length if it contains ß
        disguised = {upper, text[::-1], upper[::-1], text.encode(errors="replace").hex()}
        return quoted | disguised | set(_in_base64(text))
    return quoted


def _in_base64(text: str) -> Iterator[str]:
    """What a base64 text contains wherever it contains `text`, such as the header `Authorization: Basic …`.

    It begins at one of three places within a group, and its ends depend on its neighbours.
    """
    content = text.encode(errors="replace")
    for before in range(3):
        # Six bits a character: leave out those that contain bits of other bytes.
        first, end = -(-before * 8 // 6), (before + len(content)) * 8 // 6
        encoded = b64encode(b"\0" * before + content).decode()[first:end]
        yield from {encoded, encoded.replace("+", "-").replace("/", "_")}


@lru_cache(maxsize=1)
def settings_secrets() -> frozenset[str]:
    """Collect the secrets in Django's settings, once per process."""
    documents = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
    secrets = _secret_texts(documents, SECRET_SETTING.search)
    return frozenset(chain(secrets, *(_url_passwords(value) for value in documents.values())))


def _url_passwords(value: Any) -> Iterator[str]:
    """Find the passwords in a URL, a list of URLs, or URLs joined by semicolons as for brokers."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _url_passwords(inner)
    elif isinstance(value, str) and "://" in value:
        for address in value.split(";"):
            try:
                yield from spellings(urlsplit(address).password or "")
            except ValueError:  # not a URL
                continue


@lru_cache(maxsize=64)
def _secrets(active: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The known secrets in lower case, each with its pattern; long ones are hidden in any case."""
    # Longest first: one secret may be the beginning of another.
    ordered = sorted(settings_secrets() | active, key=len, reverse=True)
    anycase = {value: f"(?i:{re.escape(value)})" for value in ordered if len(value) >= MIN_DISGUISED_LENGTH}
    return tuple((value.lower(), anycase.get(value, re.escape(value))) for value in ordered)


class RedactingFilter(logging.Filter):
    """A filter for log handlers that redacts messages and tracebacks of every logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - bad arguments: the handler reports them, the caller continues
            return True
        redacted = redact_text(text)
        if redacted != text:
            record.msg, record.args = redacted, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = redact_text(logging.Formatter().formatException(record.exc_info))
        return True
