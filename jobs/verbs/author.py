"""Options → the change they stand for: who, why, when, and what becomes of planned occurrences."""

import getpass
from argparse import ArgumentParser
from datetime import datetime

from jobs.errors import DefinitionError
from jobs.models import Origin
from jobs.policy import Update, UpdatePolicy
from jobs.store import Change
from jobs.verbs import Options

LONGEST_AUTHOR, LONGEST_REASON = 200, 500  # the columns of a version


def add_author(parser: ArgumentParser) -> None:
    parser.add_argument("--author", default="", help="who changes it (default: the user of this shell)")


def add_change(parser: ArgumentParser) -> None:
    add_author(parser)
    kinds = "|".join(Update)
    parser.add_argument(
        "--policy", default=str(Update.IMMEDIATE), metavar=kinds, help="what follows the new definition"
    )


def change_of(options: Options, *, origin: Origin, now: datetime, reason: str) -> Change:
    author = options["author"] or user()
    for field, text, longest in (("author", author, LONGEST_AUTHOR), ("reason", reason, LONGEST_REASON)):
        if len(text) > longest or not text.isprintable():
            wanted = f"expected at most {longest} printable characters"
            raise DefinitionError(f"--{field}", text[:longest], wanted)
    policy = UpdatePolicy.named(options.get("policy") or Update.IMMEDIATE)
    return Change(origin, author, now, reason=reason, policy=policy)


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return "command line"
