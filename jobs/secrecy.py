"""Text and documents on their way to a page or a log → the same without passwords (OPS-7).

Two rules. A value whose name says that it is secret is not shown: `password`, `token`, `api_key`,
`authorization` and the like, the names Django itself hides. And no text shows the user and password of an
address. What a function raises or logs is the user's own text: put nothing secret into it.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "••••••••"
SECRET_NAME = re.compile(r"api_?key|auth|credential|pass|private|secret|signature|token", re.IGNORECASE)
IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@'\"]*@", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """`redis://user:word@host/0` → `redis://••••••••@host/0`."""
    return IN_ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text) if "://" in text else text


def cleansed(value: Any, name: str = "") -> Any:
    """A document with everything hidden that its name calls secret, at any depth."""
    if name and SECRET_NAME.search(name) and value not in (None, "", [], {}):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: cleansed(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, str):
        return without_passwords(value)
    if isinstance(value, Sequence):
        return [cleansed(inner) for inner in value]
    return value


class WithoutPasswords(logging.Filter):
    """On a handler: whatever is logged, by whomever, shows no password of an address."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit: the handler says so, the caller goes on
            return True
        if "://" in text:
            record.msg, record.args = without_passwords(text), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = without_passwords(logging.Formatter().formatException(record.exc_info))
        return True
