"""Texts of the command line → instants, ids, jobs; PunctualError says what was expected."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from getpass import getuser
from uuid import UUID

from jobs.errors import DefinitionError
from jobs.verbs import Options
from recovery.audit import Asked


def instant(option: str, text: str) -> datetime:
    """ISO 8601; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise DefinitionError(option, text, "expected an instant such as 2026-01-05T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def optional_instant(option: str, text: str | None) -> datetime | None:
    return None if text is None else instant(option, text)


def identifier(text: str, prefix: str) -> UUID:
    """With or without its prefix, as pages and logs show it."""
    try:
        return UUID(text.removeprefix(f"{prefix}_"))
    except ValueError:
        raise DefinitionError("id", text, f"expected an id such as {prefix}_…") from None


def asking(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", default="", help="why; kept with what it makes and in the audit")
    parser.add_argument("--by", default="", help="who asks (default: the user of this machine)")


def asked(options: Options) -> Asked:
    return Asked(options["by"] or user(), options["reason"])


def user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return "operator"
