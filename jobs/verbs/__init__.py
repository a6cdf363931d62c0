"""`manage.py jobs VERB`: a verb says what it takes, does one thing and answers in rows.

Packages to the right bring verbs of their own: their AppConfig connects them when Django starts.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Options = Mapping[str, Any]


def joined(row: Row) -> str:
    return "  ".join(str(value) for value in row.values())


@dataclass(frozen=True)
class Answer:
    """Rows for programs, `line` for people; `closing` is one more line for people.

    `exit_code` is asked after the last row: what it says may depend on them.
    """

    rows: Iterable[Row]
    line: Callable[[Row], str] = joined
    closing: str = ""
    single: bool = False  # JSON: the object itself instead of a list
    exit_code: Callable[[], int] = lambda: 0


@dataclass(frozen=True)
class Verb:
    name: str
    help: str
    run: Callable[[Options], Answer]
    arguments: Callable[[ArgumentParser], object] = lambda _parser: None


VERBS: dict[str, Verb] = {}


def connect(*verbs: Verb) -> None:
    VERBS.update({verb.name: verb for verb in verbs})
