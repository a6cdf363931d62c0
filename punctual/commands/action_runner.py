"""Options of verbs that list or change many rows, and running an action with a progress bar."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from punctual.commands.arguments import add_requester, requester_of
from punctual.commands.progress import Progress
from punctual.commands.verb import Answer, Options
from punctual.jobs.clock import database_now
from punctual.jobs.errors import DefinitionError
from punctual.operations.action import Action, Call, Result

DEFAULT_LISTED, MAX_LISTED = 50, 100_000


def add_limit(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n", type=int, default=DEFAULT_LISTED, help=f"how many at most (default {DEFAULT_LISTED})"
    )


def limit_of(options: Options) -> int:
    number: int = options["n"]
    if not 1 <= number <= MAX_LISTED:
        raise DefinitionError("-n", number, f"expected 1 to {MAX_LISTED}")
    return number


def add_ids(parser: ArgumentParser, prefix: str) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"ids, with or without {prefix}_")
    add_request(parser)


def add_request(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only count")
    add_requester(parser)


@dataclass(frozen=True)
class Executed:
    """The previewed count and, unless it was a dry run, the result."""

    previewed: int
    result: Result | None = None


def execute(options: Options, call: Call[Any], action: Action[Any], participle: str) -> Executed:
    """Preview an action and, without --dry-run, execute it."""
    previewed = action.preview(call).count
    if options["dry_run"]:
        return Executed(previewed)
    call = replace(call, progress=Progress(sys.stderr, previewed, participle))
    return Executed(previewed, action.execute(call, requester_of(options)))


def execute_and_count(options: Options, target: Any, action: Action[Any], participle: str) -> Answer:
    """Answer with the number of rows that are, or would be, `participle`: canceled, skipped, purged."""
    executed = execute(options, Call(target, database_now()), action, participle)
    if executed.result is None:
        return would_be(participle, executed.previewed)
    count = executed.result.count
    return Answer([{"result": participle, "count": count}], exit_code=exit_code(options, count))


def would_be(participle: str, count: int) -> Answer:
    return Answer([{"result": f"would be {participle}", "count": count}])


def exit_code(options: Options, count: int) -> Callable[[], int]:
    """Fail if an id was named and not handled; a filter takes what it finds."""
    return lambda: int(len(set(options["ids"])) > count)
