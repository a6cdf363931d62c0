"""Send messages for released runs, after the commit that released them (OCC-7).

A message's id is the id of the attempt it will start, so a resent message is the same message, and the claim
drops the second one. `dispatched_at` is written when the broker has accepted the message; the sweeper resends
the rest. The broker's delayed delivery is never used: a wait is a row.

The sender locks the rows until the broker has confirmed, and skips rows that another sender has locked. A
slow beat and any number of sweepers never send the same run at the same time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from celery import current_app
from django.db import connection, transaction
from kombu import Producer

from punctual.conf import current_settings
from punctual.execution.broker import brokers
from punctual.execution.broker.bundling import bundle_runs
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.broker.messages import label, settle_message
from punctual.execution.broker.pace import short_tasks
from punctual.jobs.clock import Clock
from punctual.jobs.config.choices import Mode
from punctual.jobs.events import Event, emit
from punctual.occurrences import outbox, transitions
from punctual.occurrences.outbox import Ready


@dataclass(frozen=True)
class Dispatched:
    sent: int = 0
    failed: int = 0


def dispatch(
    runs: Sequence[UUID] | Sequence[Ready],
    *,
    now: datetime,
    clock: Clock | None = None,
    chords: bool = True,
    bundles: bool = True,
    lost_since: datetime | None = None,
) -> Dispatched:
    """Send messages for those of the runs that are scheduled and not sent yet.

    Runs are given by their ids, or with their facts by the process that has just released them: these are
    not read again. `clock` gives the time at which the broker has accepted the messages, so that lateness
    includes the sending; the default is `now`. `lost_since` resends runs that were sent before that time.
    `chords=False` is for resends: a chord is a fast path for a first fan-out only. `bundles=False` sends one
    run per message: a run that a slow bundle handed back must not wait behind the same neighbours again.
    """
    if not runs:
        return Dispatched()
    with locking_transaction():
        ready = outbox.lock_unsent(runs, lost_since)
        paces = _paces(ready) if bundles else {}
        return _send(ready, paces, chords=chords, clock=clock or (lambda: now))


def locking_transaction() -> AbstractContextManager[object]:
    """A transaction where the database has row locks.

    On SQLite it would lock the whole database until the broker answers, and protect nothing.
    """
    return transaction.atomic() if connection.features.has_select_for_update else nullcontext()


def _paces(runs: Sequence[Ready]) -> Mapping[str, float]:
    """Read the pace of all tasks in one query; none for a single run, which cannot share a message."""
    tasks = {run.task_id for run in runs if run.bundle} if len(runs) > 1 else set()
    return short_tasks(tasks) if tasks else {}


def _send(runs: Sequence[Ready], paces: Mapping[str, float], *, chords: bool, clock: Clock) -> Dispatched:
    fans_out = chords and current_app.conf.result_backend is not None
    single, fan_outs = _split(runs) if fans_out else (runs, [])
    bundles = bundle_runs(single, paces, slots=current_settings().worker_slots)
    sent = _publish(single, partial(brokers.current().publish, bundles), clock)
    # Separately: a result store that is down, where chords are counted, must not delay the single runs.
    fanned_out = [run for siblings in fan_outs for run in siblings]
    sent += _publish(fanned_out, partial(_publish_chords, fan_outs, paces), clock)
    return Dispatched(sent=sent, failed=len(runs) - sent)


def _publish(runs: Sequence[Ready], publish: Callable[[Any], None], clock: Clock) -> int:
    """Publish in one round trip where the broker can, and confirm all runs or none of them."""
    if not runs:
        return 0
    try:
        with current_app.producer_or_acquire() as acquired:
            producer: Any = acquired
            with producer.batch():
                publish(producer)
    except BROKER_ERRORS as error:
        # The rows are committed, and the sweeper resends what was not confirmed. Some messages may have
        # reached the broker; the second message for such a run finds nothing to claim.
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(runs), error=type(error).__name__)
        return 0
    transitions.confirm_dispatch([run.run_id for run in runs], now=clock())
    return len(runs)


def _split(runs: Iterable[Ready]) -> tuple[list[Ready], list[list[Ready]]]:
    """Separate single runs from those of occurrences that fan out."""
    single: list[Ready] = []
    fan_outs: list[list[Ready]] = []
    for _, group in groupby(runs, key=attrgetter("occurrence_id")):
        siblings = list(group)
        if len(siblings) > 1 and siblings[0].mode == Mode.PARALLEL:
            fan_outs.append(siblings)
        else:
            single += siblings
    return single, fan_outs


def _publish_chords(fan_outs: Iterable[list[Ready]], paces: Mapping[str, float], producer: Producer) -> None:
    for runs in fan_outs:
        bundles = bundle_runs(runs, paces, slots=current_settings().worker_slots)
        # The callback only triggers the check: completion is decided from rows, with or without it.
        callback = settle_message(runs[0].occurrence_id, label(runs[0], "settle"))
        brokers.publish_chord(bundles, callback, producer)
