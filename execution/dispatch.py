"""Released runs → messages, after the commit that released them (OCC-7).

A message's id is the id of the attempt it will start, so a resent message is the same message, and
the claim drops whichever comes second. `dispatched_at` is written once the broker has accepted;
what it has not, the sweeper sends again. The broker's waits are never used: a wait is a row.

Whoever sends holds the rows until their messages are confirmed, and what another holds is left to
it: a slow sender and any number of sweepers never send the same run side by side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from celery import chord, current_app, group
from celery.result import denied_join_result
from django.db import transaction
from django.db.models import Q
from kombu import Producer
from kombu.exceptions import ChannelError, KombuError

from execution.messages import label, run_message, settle_message
from jobs.config import Mode
from jobs.events import Event, emit
from occurrences import transitions
from occurrences.models import TaskRun
from occurrences.states import RunState

# RuntimeError is how Celery says that the result store, where a chord counts, does not answer.
BROKER_ERRORS = (
    KombuError,
    ConnectionError,
    TimeoutError,
    OSError,
    RuntimeError,
)


@dataclass(frozen=True)
class Dispatched:
    sent: int = 0
    failed: int = 0


def dispatch(
    run_ids: Sequence[UUID], *, now: datetime, chords: bool = True, lost_since: datetime | None = None
) -> Dispatched:
    """`chords=False` resends single messages: a chord is a fast path for a first fan-out only.

    What was sent already is not sent again, unless that was before `lost_since`.
    """
    if not run_ids:
        return Dispatched()
    with transaction.atomic():
        runs = _sendable(run_ids, lost_since)
        try:
            _publish(runs, chords=chords and current_app.conf.result_backend is not None)
        except BROKER_ERRORS as error:
            # Nothing is lost: the rows are committed, and the sweeper resends what was not confirmed.
            # Some may have got through; their second message finds nothing to claim.
            emit(Event.RUN_DISPATCH_FAILED, unsent=len(runs), error=type(error).__name__)
            return Dispatched(failed=len(runs))
        if runs:
            transitions.confirm_dispatch([run.id for run in runs], now=now)
    return Dispatched(sent=len(runs))


def _publish(runs: list[TaskRun], *, chords: bool) -> None:
    """All messages in one round trip, where the broker can take them so."""
    with current_app.producer_or_acquire() as acquired:
        producer: Any = acquired
        with producer.batch():
            for batch in _batches(runs):
                _send(batch, producer, chords=chords)


def _sendable(run_ids: Sequence[UUID], lost_since: datetime | None) -> list[TaskRun]:
    unsent = Q(dispatched_at=None)
    lost = unsent if lost_since is None else unsent | Q(dispatched_at__lte=lost_since)
    rows = TaskRun.objects.filter(lost, id__in=run_ids, state=RunState.SCHEDULED, available_at__isnull=False)
    mine = rows.select_for_update(of=("self",), skip_locked=True, no_key=True)
    return list(mine.select_related("task", "occurrence__job").order_by("occurrence_id", "position"))


def _batches(runs: Iterable[TaskRun]) -> Iterable[list[TaskRun]]:
    for _, batch in groupby(runs, key=attrgetter("occurrence_id")):
        yield list(batch)


def _send(runs: list[TaskRun], producer: Producer, *, chords: bool) -> None:
    occurrence = runs[0].occurrence
    if chords and len(runs) > 1 and occurrence.config["mode"] == Mode.PARALLEL:
        # The callback is a hint: completion is decided from rows, with or without it.
        members = group(run_message(run, in_chord=True) for run in runs)
        callback = settle_message(occurrence.id, label(runs[0], "settle"))
        # Nobody here reads a result. Without this Celery subscribes to each of them before it sends, and
        # a server that is down would hold up the beat for as long as Celery retries the result store.
        with denied_join_result():
            chord(members, callback).apply_async(producer=producer)
        return
    for run in runs:
        run_message(run).apply_async(producer=producer)


def backlog(queue: str) -> int | None:
    """How many messages wait in a queue; None while the broker cannot say."""
    try:
        with current_app.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            channel: Any = connection.default_channel
            declared = channel.queue_declare(queue, passive=True)
            return int(declared.message_count)
    except ChannelError:
        return 0  # nobody has declared it: it holds nothing
    except BROKER_ERRORS:
        return None
