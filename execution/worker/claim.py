"""Claim runs for a worker and start their occurrences (TSK-2).

The only run of a message begins its attempt with the claim. The runs of a bundle are claimed together and
begin one after the other in memory. Their attempts become rows with their results, in one statement for all,
or as soon as one of them takes long (`record_attempts`). Until then the worker's shared memory says which
runs have begun, in case the process dies. If the whole worker dies, each run of the bundle may have begun,
and its attempt says so.

If nothing can be claimed, the message was resent or is outdated, and it is ignored silently.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid4

from punctual.occurrences import transitions
from punctual.occurrences.engines.contract import ClaimedRun, Take
from punctual.occurrences.ids import attempt_id
from punctual.occurrences.models import Attempt, Occurrence
from punctual.occurrences.states import AttemptState

LEASE = timedelta(seconds=30)
FORESEEN = 2  # attempts of a single run whose ids its claim knows; later ones are recorded as in a bundle


class Begun(NamedTuple):
    """An attempt that has begun and may not be a row yet."""

    run: UUID
    attempt: UUID
    number: int
    token: UUID
    worker: str
    started_at: datetime


@dataclass(frozen=True)
class Claim:
    run: ClaimedRun
    token: UUID
    worker: str
    lease_until: datetime
    number: int  # of its attempt
    attempt_id: UUID
    began_at: datetime | None = None
    recorded: bool = True  # its attempt is a row

    @property
    def begun(self) -> Begun:
        return Begun(self.run.id, self.attempt_id, self.number, self.token, self.worker, self.started_at)

    @property
    def started_at(self) -> datetime:
        return self.began_at or self.run.run_at


def claim(
    run_ids: Sequence[UUID], *, worker: str, now: datetime, lease: timedelta = LEASE
) -> tuple[Claim, ...]:
    """In the order of the message. A message's only run has begun, those of a bundle have not."""
    numbers = range(FORESEEN) if len(run_ids) == 1 else ()
    attempts = tuple(attempt_id(run_ids[0], number) for number in numbers)
    take = Take(uuid4(), worker, now, now + lease, attempts)
    runs = _with_start_times(transitions.claim(run_ids, take))
    if runs[1:]:
        places = {id_: place for place, id_ in enumerate(run_ids)}
        runs.sort(key=lambda run: places[run.id])
    return tuple(_claim(run, take) for run in runs)


def _claim(run: ClaimedRun, take: Take) -> Claim:
    number = run.attempts_made - run.begun
    attempt = take.attempts[number] if run.begun else attempt_id(run.id, number)
    began_at = run.started_at if run.begun else None
    return Claim(run, take.token, take.worker, take.lease_until, number, attempt, began_at, run.begun)


def _with_start_times(runs: list[ClaimedRun]) -> list[ClaimedRun]:
    """Read when occurrences started that the claim of a neighbour started at the same moment."""
    unknown = {run.occurrence.id for run in runs if run.occurrence.started_at is None}
    if not unknown:
        return runs
    rows = Occurrence.objects.filter(id__in=unknown).values_list("id", "started_at", "deadline_at")
    times = {id_: (started_at, deadline_at) for id_, started_at, deadline_at in rows}
    return [_started(run, *times[run.occurrence.id]) if run.occurrence.id in times else run for run in runs]


def _started(run: ClaimedRun, started_at: datetime | None, deadline_at: datetime | None) -> ClaimedRun:
    return run._replace(occurrence=run.occurrence._replace(started_at=started_at), deadline_at=deadline_at)


def begin(item: Claim, *, now: datetime) -> Claim | None:
    """Begin a claimed run just before its function is called; None if its lease has expired."""
    return replace(item, began_at=now) if now < item.lease_until else None


def record_attempts(items: Sequence[Begun], *, now: datetime) -> None:
    """Insert the attempts of runs that have begun; the caller has locked their occurrences.

    A run that another worker has claimed meanwhile is skipped. A run that was canceled after the claim has
    begun nevertheless, and gets a canceled attempt.
    """
    for token in {item.token for item in items}:
        begun = {item.run: item for item in items if item.token == token}
        times = {id_: item.started_at for id_, item in begun.items()}
        running = transitions.begin(times, token=token)
        canceled = transitions.count_canceled({id_: item.number for id_, item in begun.items()})
        Attempt.objects.bulk_create(
            [
                *(_attempt(begun[id_]) for id_ in running),
                *(_attempt(begun[id_], AttemptState.CANCELED, now) for id_ in canceled),
            ]
        )


def _attempt(
    item: Begun, state: AttemptState = AttemptState.RUNNING, finished_at: datetime | None = None
) -> Attempt:
    return Attempt(
        id=item.attempt,
        run_id=item.run,
        number=item.number,
        state=state,
        worker=item.worker,
        started_at=item.started_at,
        finished_at=finished_at,
    )


def hand_back(items: Sequence[Claim], *, now: datetime) -> tuple[UUID, ...]:
    """Give up runs that have not begun: another worker may claim them, and it costs them no attempt."""
    ids = [item.run.id for item in items]
    if not ids:
        return ()
    transitions.hand_back(ids, token=items[0].token, now=now)
    return tuple(ids)
