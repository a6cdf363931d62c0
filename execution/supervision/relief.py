"""Relieve bundles in which one function takes long: other runs must not wait for it.

What has not begun is handed back and sent again, one run per message. Successes that the process noted in its
slot are reported for it. The attempt of the function that runs is recorded. The process itself reports what
the supervisor cannot know: failures, at once, and successes with a log. Tokens decide if both report a run.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction

from punctual.execution.broker.bundling import BUDGET
from punctual.execution.broker.dispatch import dispatch
from punctual.execution.ending.attempt_report import report_of_row
from punctual.execution.ending.hook_calls import request_hooks
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import record_attempts, report_free
from punctual.execution.ending.settle import Settled
from punctual.execution.supervision.board import BegunState
from punctual.occurrences import transitions
from punctual.occurrences.models import TaskRun
from punctual.occurrences.states import RunState

RELIEVE_AFTER = 2 * BUDGET  # seconds one function has run: its process then begins no other run


class SlowBundle(NamedTuple):
    token: UUID
    current: UUID  # the run whose function is running
    running_for: timedelta
    begun: Mapping[UUID, BegunState]


class Relieved(NamedTuple):
    handed_back: Collection[UUID] = ()
    reported: Collection[UUID] = ()


def relieve(bundles: Sequence[SlowBundle], *, now: datetime) -> Relieved:
    by_token = {bundle.token: bundle for bundle in bundles}
    rows = TaskRun.objects.filter(claim_token__in=by_token, state=RunState.CLAIMED)
    held = [
        (by_token[run.claim_token], run)
        for run in rows.select_related("task", "occurrence")
        if run.claim_token
    ]
    unbegun = _hand_back([(bundle, run) for bundle, run in held if run.id not in bundle.begun], now)
    done = [item for item in held if item[0].begun.get(item[1].id) is BegunState.SUCCEEDED]
    success = Result(Ending.SUCCESS)
    reports = [report_of_row(run, bundle.token, success) for bundle, run in done]
    settled, left = report_free(reports, now=now) if reports else (Settled(), ())
    _record([(bundle, run) for bundle, run in held if run.id == bundle.current], now)
    dispatch([*unbegun, *settled.released], now=now, chords=False, bundles=False)
    request_hooks(settled.with_hooks)
    return Relieved(unbegun, {item.begun.run for item in reports if item not in left})


def _hand_back(held: Sequence[tuple[SlowBundle, TaskRun]], now: datetime) -> list[UUID]:
    for token in {bundle.token for bundle, _ in held}:
        transitions.hand_back([run.id for bundle, run in held if bundle.token == token], token=token, now=now)
    return [run.id for _, run in held]


def _record(held: Sequence[tuple[SlowBundle, TaskRun]], now: datetime) -> None:
    """The function may end now and be reported by its process: the second writer finds the row."""
    if not held:
        return
    begun = [
        report_of_row(run, bundle.token, Result(Ending.LOST)).begun._replace(
            started_at=now - bundle.running_for
        )
        for bundle, run in held
    ]
    with transaction.atomic():
        free = {row.id for row in transitions.lock_free_occurrences({run.occurrence_id for _, run in held})}
        owners = {run.id: run.occurrence_id for _, run in held}
        record_attempts([item for item in begun if owners[item.run] in free], now=now)
