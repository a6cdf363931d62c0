"""Say who requests a change of the ledger and why, and let the requester record what each batch changed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from django.db.models import Model

Log = Callable[[Model, str], None]


def no_log(_row: Model, _message: str) -> None:
    """Keep no further log: the audit is enough."""


@dataclass(frozen=True)
class Requester:
    """`log` writes a changed row to a second log, inside the transaction of the change."""

    by: str
    reason: str = ""
    log: Log = no_log


class Record(Protocol):
    """Called inside the transaction of each batch with the number of changed rows, in all and by kind."""

    def __call__(self, count: int, /, **kinds: int) -> None: ...


def unrecorded(_count: int, /, **_kinds: int) -> None:
    """Record nothing."""
