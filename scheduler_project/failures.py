"""An exception nobody caught → one clear line where its kind is known; Python's traceback otherwise.

Installed as `sys.excepthook` in every process of the project. `--traceback` brings the traceback back.
"""

import re
import sys
import traceback
from types import TracebackType

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, ProgrammingError
from kombu.exceptions import OperationalError as BrokerError

from jobs.errors import PunctualError
from jobs.secrecy import without_passwords, without_secrets
from schedules import ScheduleError

UNMIGRATED = re.compile(r"no such (table|column)|(relation|column) .+ does not exist")


def explained(error: BaseException) -> str | None:
    """The line to show; None for what deserves its traceback."""
    text = " ".join(str(error).split())
    match error:
        case OperationalError() | ProgrammingError() if UNMIGRATED.search(text):
            return f"the database is not migrated; run `manage.py migrate` ({text})"
        case OperationalError():
            return f"cannot use database {_database()}: {text}"
        case BrokerError():
            return f"cannot reach the broker: {text}"
        case PunctualError() | ScheduleError() | ImproperlyConfigured():
            return text
    return None


def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    line = None if "--traceback" in sys.argv else explained(error)
    if line is None:
        line = "".join(traceback.format_exception(kind, error, trace)).rstrip()
    else:
        line = f"error: {line}"
    sys.stderr.write(f"{discreet(line)}\n")


def discreet(line: str) -> str:
    try:
        return without_secrets(line)
    except ImproperlyConfigured:  # the settings are what is wrong: nothing of them is known
        return without_passwords(line)


def install() -> None:
    sys.excepthook = hook


def _database() -> str:
    """Where it is, without who we are there."""
    entry = settings.DATABASES["default"]
    place = ":".join(str(part) for part in (entry.get("HOST"), entry.get("PORT")) if part)
    return f"{place}/{entry['NAME']}" if place else str(entry["NAME"])
