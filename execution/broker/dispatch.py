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
from django.db.models import Q
from kombu import Producer

from punctual.conf import current_settings
from punctual.execution.broker import brokers
from punctual.execution.broker.bundling import Bundle, bundle_runs, short_tasks
from punctual.execution.broker.errors import BROKER_ERRORS
from punctual.execution.broker.messages import label, settle_message
from punctual.jobs.clock import Clock
from punctual.jobs.config.choices import Mode
from punctual.jobs.events import Event, emit
from punctual.occurrences import transitions
from punctual.occurrences.models import TaskRun
from punctual.occurrences.outbox import Ready, read_ready
from punctual.occurrences.querysets import IdText
from punctual.occurrences.states import OccurrenceState, RunState


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
        ready = _lock_unsent(runs, lost_since)
        # A single run cannot share a message.
        paces = _paces(ready) if bundles and len(ready) > 1 else {}
        dispatched = _send(ready, paces, chords=chords, clock=clock or (lambda: now))
    if len(ready) < len(runs):
        _request_start_hooks(runs)
    return dispatched


def _request_start_hooks(runs: Sequence[UUID] | Sequence[Ready]) -> None:
    """Ask a worker to call the start hooks for which these runs are held back; they release the runs.

    If the broker fails, the sweeper finds the occurrence, in which no run is released.
    """
    ids: Sequence[Any] = [run.run_id if isinstance(run, Ready) else run for run in runs]
    held_back = TaskRun.objects.filter(id__any=ids, state=RunState.SCHEDULED, available_at=None)
    unstarted = held_back.filter(occurrence__state=OccurrenceState.DISPATCHED)
    try:
        for occurrence, queue in unstarted.order_by("id").values_list("occurrence_id", "policy__queue"):
            settle_message(occurrence, queue=queue).apply_async()
    except BROKER_ERRORS as error:
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(runs), error=type(error).__name__)


def locking_transaction() -> AbstractContextManager[object]:
    """A transaction where the database has row locks.

    On SQLite it would lock the whole database until the broker answers, and protect nothing.
    """
    return transaction.atomic() if connection.features.has_select_for_update else nullcontext()


def _lock_unsent(runs: Sequence[UUID] | Sequence[Ready], lost_since: datetime | None) -> Sequence[Ready]:
    """Lock the runs that may be sent now and return their facts, which are read unless the caller has them.

    Runs that another process is sending are left to it. With `lost_since`, runs sent up to then count as
    unsent: their messages are lost.
    """
    known = [run for run in runs if isinstance(run, Ready)]
    ids: Sequence[Any] = [run.run_id for run in known] or runs
    unsent = Q(dispatched_at=None)
    due = unsent if lost_since is None else unsent | Q(dispatched_at__lte=lost_since)
    rows = TaskRun.objects.filter(due, id__any=ids, state=RunState.SCHEDULED, available_at__isnull=False)
    # Ordered by id: the model's own ordering joins the occurrences and would lock them too.
    locking = rows.order_by("id").select_for_update(skip_locked=True, no_key=True)
    locked = set(locking.values_list(IdText("id"), flat=True))
    return [run for run in known if run.run_id in locked] if known else read_ready(locked)


def _paces(runs: Iterable[Ready]) -> Mapping[str, float]:
    """Read the pace of all tasks in one query."""
    tasks = {run.task_id for run in runs if run.bundle}
    return short_tasks(tasks) if tasks else {}


def _send(runs: Sequence[Ready], paces: Mapping[str, float], *, chords: bool, clock: Clock) -> Dispatched:
    fans_out = chords and len(runs) > 1 and current_app.conf.result_backend is not None
    single, fan_outs = _split(runs) if fans_out else (runs, [])
    broker = brokers.broker_of(str(current_app.conf.broker_url))
    sent = _publish(single, partial(broker.publish, _bundles(single, paces)), clock) if single else 0
    if fan_outs:
        # Separately: a result store that is down, where chords are counted, must not delay the single runs.
        fanned_out = [run for siblings in fan_outs for run in siblings]
        sent += _publish(fanned_out, partial(_publish_chords, fan_outs, paces), clock)
    return Dispatched(sent=sent, failed=len(runs) - sent)


def _bundles(runs: Sequence[Ready], paces: Mapping[str, float]) -> list[Bundle]:
    return bundle_runs(runs, paces, slots=current_settings().worker_slots)


def _publish(runs: Sequence[Ready], publish: Callable[[Any], None], clock: Clock) -> int:
    """Publish in one round trip where the broker can, and confirm all runs or none of them."""
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
        bundles = _bundles(runs, paces)
        # The callback only triggers the check: completion is decided from rows, with or without it.
        callback = settle_message(runs[0].occurrence_id, label(runs[0], "settle"))
        brokers.publish_chord(bundles, callback, producer)
