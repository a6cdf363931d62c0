"""Read options that several verbs share: instants, ids, the author and the reason of a change.

A text that cannot be read raises DefinitionError with the option, the text and what was expected.
"""

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime
from uuid import UUID

from punctual.commands.verb import Options
from punctual.jobs.config.choices import Update
from punctual.jobs.errors import DefinitionError
from punctual.jobs.models import Origin
from punctual.jobs.store.definitions import Change
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.operations.permissions import SEND_MESSAGES
from punctual.recovery.requester import Requester

MAX_AUTHOR, MAX_REASON = 200, 500  # the columns of a version


def parse_instant(option: str, text: str) -> datetime:
    """Parse ISO 8601; without an offset it is UTC."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise DefinitionError(option, text, "expected an instant such as 2026-01-05T12:00:00Z") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def parse_optional_instant(option: str, text: str | None) -> datetime | None:
    return None if text is None else parse_instant(option, text)


def parse_id(text: str, prefix: str) -> UUID:
    """Parse an id with or without the prefix that pages and logs show."""
    try:
        return UUID(text.removeprefix(f"{prefix}_"))
    except ValueError:
        raise DefinitionError("id", text, f"expected an id such as {prefix}_…") from None


def add_requester(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", default="", help="why; kept with what it makes and in the audit")
    parser.add_argument("--by", default="", help="who asks (default: the user of this machine)")


def requester_of(options: Options) -> Requester:
    return Requester(options["by"] or shell_user(default="operator"), options["reason"])


def add_author(parser: ArgumentParser) -> None:
    parser.add_argument("--author", default="", help="who changes it (default: the user of this shell)")


def add_change(parser: ArgumentParser) -> None:
    add_author(parser)
    parser.add_argument(
        "--allow-messages", action="store_true", help="accept jobs that send Celery messages of any kind"
    )
    kinds = "|".join(Update)
    parser.add_argument(
        "--policy", default=str(Update.IMMEDIATE), metavar=kinds, help="what follows the new definition"
    )


def change_of(options: Options, *, origin: Origin, now: datetime, reason: str) -> Change:
    author = options["author"] or shell_user(default="command line")
    for field, text, longest in (("author", author, MAX_AUTHOR), ("reason", reason, MAX_REASON)):
        if len(text) > longest or not text.isprintable():
            expected = f"expected at most {longest} printable characters"
            raise DefinitionError(f"--{field}", text[:longest], expected)
    policy = UpdatePolicy.named(options.get("policy") or Update.IMMEDIATE)
    permissions = (SEND_MESSAGES,) if options.get("allow_messages") else ()
    return Change(origin, author, now, reason=reason, policy=policy, permissions=permissions)


def shell_user(*, default: str) -> str:
    """Return the name of the user; `default` in a container whose user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return default
