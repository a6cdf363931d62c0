"""What the verbs that change many rows share: which ones, how many they would be, and then it is done."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from jobs.clock import database_now
from jobs.errors import DefinitionError
from jobs.progress import Progress
from jobs.verbs import Answer, Options
from recovery.audit import Asked
from recovery.verbs.reading import asked, asking

SHOWN, MOST = 50, 100_000


def listing(parser: ArgumentParser) -> None:
    parser.add_argument("-n", type=int, default=SHOWN, help=f"at most so many (default {SHOWN})")


def listed(options: Options) -> int:
    number: int = options["n"]
    if not 1 <= number <= MOST:
        raise DefinitionError("-n", number, f"expected 1 to {MOST}")
    return number


def several(parser: ArgumentParser, prefix: str) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"ids, with or without {prefix}_")
    acting(parser)


def acting(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    asking(parser)


@dataclass(frozen=True)
class Doing:
    """What a step is told: who asks, when, and whom to tell how far it is."""

    asked: Asked
    now: datetime
    progress: Progress


def acted(options: Options, done: str, *, count: Callable[[], int], do: Callable[[Doing], int]) -> Answer:
    """`done` is a participle: what would be, or is, replayed, canceled, purged."""
    found = count()
    if options["dry_run"]:
        return Answer([{"result": f"would be {done}", "count": found}])
    doing = Doing(asked(options), database_now(), Progress(sys.stderr, found, done))
    acted_on = do(doing)
    return Answer([{"result": done, "count": acted_on}], exit_code=undone(options, acted_on))


def undone(options: Options, done: int) -> Callable[[], int]:
    """The exit code: whoever names ids wants each of them done; a filter takes what it finds."""
    return lambda: int(len(set(options["ids"])) > done)
