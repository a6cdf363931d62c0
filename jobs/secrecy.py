"""Text and documents on their way to a page, a log or the ledger → the same without secrets (OPS-7).

Three rules. A value whose name says that it is secret is not shown: `password`, `token`, `api_key`,
`authorization` and the like, the names Django itself hides, and those a job's `secret_args` list. No text
shows the user and password of an address. And values known to be secret, those of settings and of the
arguments a running function was given, are blotted out wherever they turn up.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from django.conf import settings

HIDDEN = "••••••••"
SECRET_NAME = re.compile(
    r"api_?key|auth(?!ors?($|_))|credential|pass(?!(ed|es|ing|ive|engers?)($|_))|private"
    r"|secret(?!_args$)|signature|token",
    re.IGNORECASE,
)
# Of settings, whose values are blotted out everywhere: only what cannot be anything else.
SECRET_SETTING = re.compile(
    r"(^|_)(password|passwd|secret|secret_key|secret_key_fallbacks|token|api_?key|private_key)$",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@'\"]*@", re.IGNORECASE)
SHORTEST = 4  # characters: what is shorter cannot be told from ordinary words

# Of functions that run just now, in whatever thread of this process.
_held: Counter[str] = Counter()
_lock = Lock()


def without_secrets(text: str) -> str:
    """What is stored, logged or shown of a text."""
    pattern = _pattern(frozenset(_held)) if _held else _pattern()
    return without_passwords(pattern.sub(HIDDEN, text) if pattern else text)


def without_passwords(text: str) -> str:
    """`redis://user:word@host/0` → `redis://••••••••@host/0`."""
    return IN_ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text) if "://" in text else text


def cleansed(value: Any, name: str = "", *, also: Collection[str] = ()) -> Any:
    """A document with everything hidden that its name calls secret, or `also` lists, at any depth."""
    if name and (name in also or SECRET_NAME.search(name)) and value not in (None, "", [], {}):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: cleansed(inner, str(key), also=also) for key, inner in value.items()}
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [cleansed(inner, also=also) for inner in value]
    return value


def secret_args(*configs: Mapping[str, Any]) -> set[str]:
    """What was marked when it was planned, and what is marked now."""
    return {name for config in configs for name in config.get("secret_args", ())}


def blotted(value: Any) -> Any:
    """A document to be stored: names stay what they are, texts lose the secrets known here."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {key: blotted(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [blotted(inner) for inner in value]
    return value


def kept_secret(args: Mapping[str, Any], config: Mapping[str, Any]) -> AbstractContextManager[None]:
    """While it lasts, the values of an occurrence's secret arguments are in no text; most have none."""
    if not args:
        return nullcontext()
    names = config.get("secret_args", ())
    return _keeping([*_texts(args, lambda name: name in names or SECRET_NAME.search(name))])


@contextmanager
def _keeping(values: Collection[str]) -> Iterator[None]:
    with _lock:
        _held.update(values)
    try:
        yield
    finally:
        with _lock:
            _held.subtract(values)
            for value in set(values):
                if not _held[value]:
                    del _held[value]


def _texts(
    value: Any, judge: Callable[[str], object], name: str = "", *, secret: bool = False
) -> Iterator[str]:
    """Every text in it that is secret, as it is and as an address would hold it."""
    secret = secret or bool(name and judge(name))
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, judge, str(key), secret=secret)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, judge, secret=secret)
    elif secret and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield from _spelled(str(value))


def _spelled(value: str) -> Iterator[str]:
    if len(value) >= SHORTEST:
        yield from {value, quote(value, safe=""), unquote(value), repr(value)[1:-1]}


@lru_cache(maxsize=1)
def known() -> frozenset[str]:
    """The secrets of this project's settings; read once."""
    documents = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
    found = _texts(documents, SECRET_SETTING.search)
    return frozenset(chain(found, *(_of_address(value) for value in documents.values())))


def _of_address(value: Any) -> Iterator[str]:
    """The password of an address; of several, as brokers are listed, each."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _of_address(inner)
    elif isinstance(value, str) and "://" in value:
        for address in value.split(";"):
            try:
                yield from _spelled(urlsplit(address).password or "")
            except ValueError:  # not an address after all
                continue


@lru_cache(maxsize=64)
def _pattern(held: frozenset[str] = frozenset()) -> re.Pattern[str] | None:
    # Longest first: a secret may begin with another.
    values = sorted(known() | held, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, values))) if values else None


class WithoutSecrets(logging.Filter):
    """On a handler: whatever is logged, by whomever, shows no secret that is known here."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit: the handler says so, the caller goes on
            return True
        shown = without_secrets(text)
        if shown != text:
            record.msg, record.args = shown, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = without_secrets(logging.Formatter().formatException(record.exc_info))
        return True
