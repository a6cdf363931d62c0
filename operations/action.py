"""Define an operator's action: its target, permission, parameters, preview, execution and result.

Everything here is a plain value. A page turns parameters into form fields and facts into HTML; a command
turns them into options and lines; an action knows neither.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Generic, TypeVar
from uuid import UUID

from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.operations.models import AuditedAction
from punctual.recovery.requester import Requester

Target = TypeVar("Target")
Progress = Callable[[int], object]
Fact = tuple[str, object]


def no_progress(_count: int) -> None:
    """Report no progress."""


class Scope(StrEnum):
    """What an action is applied to."""

    JOBS = "jobs"  # target: a sequence of Job
    OCCURRENCES = "occurrences"  # target: OccurrenceSelection
    DEAD_LETTERS = "dead-letters"  # target: DeadLetterFilter
    PLATFORM = "platform"  # target: None


@dataclass(frozen=True)
class OccurrenceSelection:
    """Occurrences named by id, or found by `criteria`, which the audit repeats."""

    rows: OccurrenceQuerySet
    criteria: Mapping[str, Any] | None = None


class ParameterKind(Enum):
    INSTANT = "instant"
    CHOICE = "choice"
    TEXT = "text"


@dataclass(frozen=True)
class Parameter:
    """One value an action needs.

    `default` computes the value an operator starts with. A `pinned` parameter is not shown: it is computed
    with the preview and returned with the confirmation, so that the action does what the preview counted. A
    parameter with `in_preview=False` does not change the preview and is chosen with the confirmation. An
    instant that is `optional` may be left out; then it is None.
    """

    name: str
    label: str
    kind: ParameterKind
    default: Callable[[datetime], Any]
    choices: Mapping[str, str] = field(default_factory=dict)
    ends_range: bool = False
    pinned: bool = False
    in_preview: bool = True
    optional: bool = False


@dataclass(frozen=True)
class Call(Generic[Target]):
    """One use of an action.

    `limit` bounds the rows it handles; without it the bound of the step itself holds.
    """

    target: Target
    now: datetime
    values: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    progress: Progress = no_progress


@dataclass(frozen=True)
class Table:
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Preview:
    """What an action would change now; with `more`, `count` is a lower bound."""

    count: int
    facts: Sequence[Fact] = ()
    unit: tuple[str, str] = ("occurrence", "occurrences")
    more: bool = False
    hint: str = ""
    tables: Sequence[Table] = ()

    @property
    def counted(self) -> str:
        return at_least(self.count, more=self.more)

    @property
    def counted_unit(self) -> str:
        one, many = self.unit
        return one if self.count == 1 else many


@dataclass(frozen=True)
class Result:
    """What an action changed: `count` rows, described by `message`.

    `notes` name targets that were left alone, `problems` say what failed. New occurrences are in `created`,
    or have the cause `created_cause`.
    """

    count: int
    message: str
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    created: tuple[UUID, ...] = ()
    created_cause: str = ""


@dataclass(frozen=True)
class Action(Generic[Target]):
    """One thing an operator can do.

    `name` is unique within its scope. `audit` is the kind of entry that `execute` writes. `available` tells
    whether the action makes sense for one row of the target, and `unavailable` says why not. Only an action
    with `many` takes several jobs. Without `needs_reason` the reason may be left out. `limit` bounds one
    interactive request.
    """

    scope: Scope
    name: str
    label: str
    verb: str
    permission: str
    description: str
    preview: Callable[[Call[Target]], Preview]
    execute: Callable[[Call[Target], Requester], Result]
    audit: AuditedAction
    parameters: tuple[Parameter, ...] = ()
    available: Callable[[Any], bool] = lambda _row: True
    unavailable: str = ""
    many: bool = False
    needs_reason: bool = True
    dangerous: bool = False
    limit: int | None = None


def at_least(count: int, *, more: bool) -> str:
    return f"at least {count:,}" if more else f"{count:,}"
