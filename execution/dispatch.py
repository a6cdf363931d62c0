"""Released runs → messages, after the commit that released them (OCC-7).

A message's id is the id of the attempt it will start, so a resent message is the same message, and
the claim drops whichever comes second. `dispatched_at` is written once the broker has accepted;
what it has not, the sweeper sends again. The broker's waits are never used: a wait is a row.

Whoever sends holds the rows until their messages are confirmed, and what another holds is left to
it: a slow sender and any number of sweepers never send the same run side by side.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from amqp.exceptions import AMQPError, MessageNacked
from celery import chord, current_app, group
from celery.result import denied_join_result
from django.conf import settings
from django.db import connection, transaction
from kombu import Producer
from kombu.exceptions import KombuError

from execution.bundling import Bundle, bundled
from execution.messages import (
    MANY,
    Texts,
    counted_without_results,
    label,
    publish_chord,
    publish_runs,
    run_message,
    settle_message,
    written,
)
from execution.pace import proven_short
from jobs.clock import Clock
from jobs.config import Mode
from jobs.events import Event, emit
from occurrences import ready, transitions
from occurrences.ready import Ready

# RuntimeError is how Celery says that the result store, where a chord counts, does not answer.
BROKER_ERRORS = (
    KombuError,
    ConnectionError,
    TimeoutError,
    OSError,
    RuntimeError,
    # RabbitMQ's, when it goes away in the middle of a batch, or refuses a message.
    AMQPError,
    MessageNacked,
)


@dataclass(frozen=True)
class Dispatched:
    sent: int = 0
    failed: int = 0


def dispatch(
    run_ids: Sequence[UUID],
    *,
    now: datetime,
    chords: bool = True,
    bundles: bool = True,
    lost_since: datetime | None = None,
) -> Dispatched:
    """`chords=False` resends without: a chord is a fast path for a first fan-out only. `bundles=False`
    sends one run a message: what was handed back shall not wait behind the same neighbours again.

    What was sent already is not sent again, unless that was before `lost_since`.
    """
    if not run_ids:
        return Dispatched()
    with holding():
        found = Outgoing(ready.read(ready.held(run_ids, lost_since)), chords=chords)
        return _send(found.ask() if bundles else found, clock=lambda: now)


class Outgoing:
    """Runs on their way: what is known of their tasks, and their messages as far as they are made.

    `ask` asks the database, `make` nobody: it can be done while the database is busy with something else.
    """

    def __init__(self, runs: Sequence[Ready], *, chords: bool = True) -> None:
        self.runs = runs
        self.paces: Mapping[str, float] = {}
        self.texts: Texts | None = None
        chords = chords and current_app.conf.result_backend is not None
        self.single, self.fans = _parted(runs) if chords else (runs, [])

    def ask(self) -> "Outgoing":
        """One question for all; none for a run that is alone anyway."""
        tasks = {run.task_id for run in self.runs if run.bundle} if self.runs[1:] else set()
        self.paces = proven_short(tasks) if tasks else {}
        return self

    @cached_property
    def bundles(self) -> Sequence[Bundle]:
        return bundled(self.single, self.paces, slots=settings.PUNCTUAL_WORKER_SLOTS)

    def make(self) -> None:
        if len(self.bundles) >= MANY and str(current_app.conf.broker_url).startswith("redis"):
            self.texts = written(self.bundles)


def send(outgoing: Outgoing, *, clock: Clock) -> Dispatched:
    """The same for runs that were released a moment ago: nothing but their locks is asked for.

    `clock` is read when the broker has accepted, so that lateness is told as it was.
    """
    if not outgoing.runs:
        return Dispatched()
    with holding():
        mine = ready.hold(outgoing.runs)
        if len(mine) < len(outgoing.runs):
            outgoing = Outgoing(mine).ask()
        return _send(outgoing, clock=clock)


def holding() -> AbstractContextManager[object]:
    """Without row locks (SQLite) a transaction would keep everybody waiting for the broker, for nothing."""
    return transaction.atomic() if connection.features.has_select_for_update else nullcontext()


def _send(outgoing: Outgoing, *, clock: Clock) -> Dispatched:
    publish = partial(publish_runs, outgoing.bundles, texts=outgoing.texts)
    sent = _accepted(outgoing.single, publish, clock)
    # On its own: a result store that is down, where a chord counts, must not hold up the others.
    fanned = [run for fan in outgoing.fans for run in fan]
    sent += _accepted(fanned, partial(_publish_chords, outgoing.fans, outgoing.paces), clock)
    return Dispatched(sent=sent, failed=len(outgoing.runs) - sent)


def _accepted(runs: Sequence[Ready], publish: Callable[[Any], None], clock: Clock) -> int:
    """All of them in one round trip, where the broker can take them so; all accepted or none confirmed."""
    if not runs:
        return 0
    try:
        with current_app.producer_or_acquire() as acquired:
            producer: Any = acquired
            with producer.batch():
                publish(producer)
    except BROKER_ERRORS as error:
        # Nothing is lost: the rows are committed, and the sweeper resends what was not confirmed. Some
        # may have got through; their second message finds nothing to claim.
        emit(Event.RUN_DISPATCH_FAILED, unsent=len(runs), error=type(error).__name__)
        return 0
    transitions.confirm_dispatch([run.run_id for run in runs], now=clock())
    return len(runs)


def _parted(runs: Iterable[Ready]) -> tuple[list[Ready], list[list[Ready]]]:
    """Runs that go out one by one, and those of occurrences that fan out."""
    single: list[Ready] = []
    fans: list[list[Ready]] = []
    for _, runs_of_one in groupby(runs, key=attrgetter("occurrence_id")):
        batch = list(runs_of_one)
        if len(batch) > 1 and batch[0].mode == Mode.PARALLEL:
            fans.append(batch)
        else:
            single += batch
    return single, fans


def _publish_chords(fans: Iterable[list[Ready]], paces: Mapping[str, float], producer: Producer) -> None:
    for runs in fans:
        bundles = bundled(runs, paces, slots=settings.PUNCTUAL_WORKER_SLOTS)
        # The callback is a hint: completion is decided from rows, with or without it.
        callback = settle_message(runs[0].occurrence_id, label(runs[0], "settle"))
        if counted_without_results():
            publish_chord(bundles, callback, producer)
            continue
        members = group(run_message(bundle, in_chord=True) for bundle in bundles)
        # Nobody here reads a result. Without this Celery subscribes to each of them before it sends, and
        # a server that is down would hold up the beat for as long as Celery retries the result store.
        with denied_join_result():
            chord(members, callback).apply_async(producer=producer)
