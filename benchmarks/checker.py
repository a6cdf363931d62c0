"""Compare the ledger and the effects of tasks with the schedules, after all occurrences have ended.

The expected instants are computed from the schedules (`punctual.recovery.verification.verify`), not from the
rows; the actual results are read from the rows and from the table of effects, which the platform does not
write.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from punctual.jobs.models import Job
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OCCURRENCE_OPEN, OccurrenceState, RunState
from punctual.recovery.verification.coverage import Kind
from punctual.recovery.verification.segments import owed_instants
from punctual.recovery.verification.verify import job_segments, verify

LATE = timedelta(seconds=60)


@dataclass(frozen=True)
class Scorecard:
    """`lost`, `doubled` and `stuck` must be 0; the other figures are informative."""

    expected: int  # instants by the schedules
    lost: int  # instants without a row, occurrences that did not complete, successes without an effect
    doubled: int  # instants with two rows, transactional runs with two effects
    stuck: int  # occurrences that have not ended
    late: int  # started more than a minute late
    repeated: int  # runs of non-transactional tasks with more than one effect (at least once)
    runs: int
    attempts_lost: int
    lateness: tuple[float, float, float]  # seconds: median, 99th percentile, maximum

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.stuck)


def check(*, end: datetime, transactional: str = "once") -> Scorecard:
    """Check all instants up to `end`; `transactional` names the function that must take effect once."""
    kinds: Counter[Kind] = Counter()
    expected = 0
    for job in Job.objects.exclude(schedule__startswith="@once").order_by("name"):
        expected += sum(1 for _ in owed_instants(job_segments(job, end), job.created_at, end))
        for item in verify(job, now=end + timedelta(hours=1), until=end):
            kinds[item.kind] += item.count
    rows = Occurrence.objects.filter(
        scheduled_for__lte=end, job__in=Job.objects.exclude(schedule__startswith="@once")
    )
    over = rows.exclude(state__in=OCCURRENCE_OPEN)
    effects = _effects()
    success = TaskRun.objects.filter(state=RunState.SUCCESS, occurrence__scheduled_for__lte=end)
    functions = dict(success.values_list("id", "task__function"))
    once = {run for run, function in functions.items() if function.endswith(f".{transactional}")}
    writing = {run for run, function in functions.items() if not function.endswith((".slow", ".nothing"))}
    waits = sorted(
        (started - due).total_seconds()
        for started, due in rows.values_list("started_at", "run_at")
        if started is not None
    )
    return Scorecard(
        expected=expected,
        lost=kinds[Kind.MISSING]
        + kinds[Kind.UNPLANNED]
        + sum(over.exclude(state=OccurrenceState.COMPLETED).values_list("instants", flat=True))
        + sum(effects[run] == 0 for run in writing),
        doubled=kinds[Kind.DOUBLED] + kinds[Kind.UNOWED] + sum(effects[run] > 1 for run in once),
        stuck=rows.filter(state__in=OCCURRENCE_OPEN).count(),
        late=sum(wait > LATE.total_seconds() for wait in waits),
        repeated=sum(effects[run] > 1 for run in writing - once),
        runs=len(functions),
        attempts_lost=_attempts_lost(),
        lateness=(_percentile(waits, 0.5), _percentile(waits, 0.99), waits[-1] if waits else 0.0),
    )


def _effects() -> Counter[object]:
    """Effects per run."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT run_id, COUNT(*) FROM cluster_app_effect GROUP BY run_id")
        return Counter({_uuid(run): count for run, count in cursor.fetchall()})


def _uuid(value: object) -> object:
    return value if isinstance(value, UUID) else UUID(str(value))


def _attempts_lost() -> int:
    return Attempt.objects.filter(state="lost").count()


def _percentile(ordered: list[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def summary_rows(card: Scorecard) -> list[tuple[str, object]]:
    median, most, longest = card.lateness
    return [
        ("instants expected", card.expected),
        ("lost", card.lost),
        ("doubled", card.doubled),
        ("stuck", card.stuck),
        ("started more than a minute late", card.late),
        ("lateness p50 / p99 / max", f"{median:.2f} / {most:.1f} / {longest:.1f} s"),
        ("runs that succeeded", card.runs),
        ("attempts lost with their worker", card.attempts_lost),
        ("non-transactional runs with several effects", card.repeated),
    ]
