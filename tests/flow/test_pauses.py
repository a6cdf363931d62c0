"""What a pause leaves in the ledger, with and without beats: the table in docs/concepts.md (JOB-8)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from punctual import Context, Job
from punctual.jobs import control
from punctual.jobs.config.choices import Backlog, Overlap, Recovery
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import JobVersion, Pause
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.planning.paused_instants import MAX_REPEATED, preview_backlog
from punctual.recovery.verification.coverage import Kind
from punctual.recovery.verification.verify import verify
from tests.harness import START, Harness

pytestmark = [pytest.mark.req("JOB-8")]

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts.md"
SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
PAUSED = ("skipped", "paused")
RECOVERIES: dict[Recovery, dict[str, Any]] = {
    strategy: {"recovery": strategy.value} for strategy in Recovery
} | {Recovery.BOUNDED_WINDOW: {"recovery": "bounded_window", "recovery_max_occurrences": 2}}
# How long beats are stopped, and a schedule of which six instants fall into that time.
DOWNTIMES = {
    "a minute": (MINUTE, "*/10 * * * * *"),
    "an hour": (HOUR, "*/10 * * * *"),
    "a day": (DAY, "0 */4 * * *"),
    "a month": (30 * DAY, "0 0 */5 * *"),
}


def noop(ctx: Context) -> None: ...


# -- the table in the documentation ------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """State and reason of the new occurrences: of the first instant, those between, and the last."""

    first: tuple[str, str] | None
    between: tuple[str, str] | None
    last: tuple[str, str] | None

    def outcomes(self, instants: Sequence[datetime]) -> dict[datetime, tuple[str, str]]:
        cells = [self.first, *[self.between] * (len(instants) - 2), self.last]
        return {at: cell for at, cell in zip(instants, cells, strict=True) if cell is not None}


def documented() -> dict[tuple[Backlog, Overlap], Expected]:
    """The table whose first columns are `backlog` and `overlap`; `any` stands for every policy."""
    lines = CONCEPTS.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| backlog | overlap |"))
    table: dict[tuple[Backlog, Overlap], Expected] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        backlog, overlap, *cells = (cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
        policies = list(Overlap) if overlap == "any" else [Overlap(one) for one in overlap.split(", ")]
        outcomes = [_outcome(cell) for cell in cells[:3]]
        table |= {(Backlog(backlog), policy): Expected(*outcomes) for policy in policies}
    return table


def _outcome(cell: str) -> tuple[str, str] | None:
    if cell == "none":
        return None
    state, _, reason = cell.partition(", ")
    return state, reason


TABLE = documented()


def test_the_table_has_every_backlog_and_overlap() -> None:
    assert set(TABLE) == set(product(Backlog, Overlap))


# -- maintenance -------------------------------------------------------------------------------------------


def begin(harness: Harness, schedule: str, overlap: str) -> list[str]:
    """One job for each recovery strategy, planned by a beat that then stops."""
    for strategy, config in RECOVERIES.items():
        Job(strategy.value, schedule, overlap=overlap, **config).task(noop)
    harness.start_at(START)
    harness.tick()
    return [strategy.value for strategy in RECOVERIES]


def instants_of(job: str, since: datetime, until: datetime) -> list[datetime]:
    return list(schedule_of(control.get_job(job)).between(since, until))


def settle_down(harness: Harness) -> None:
    """Beats and workers are back for three seconds, in which no instant falls."""
    for _ in range(3):
        harness.pass_time(seconds=1)
        harness.tick()
        harness.work()


def ledger(job: str) -> dict[datetime, tuple[str, str]]:
    rows = Occurrence.objects.filter(job__name=job, parent=None)
    return {row.scheduled_for: (row.state, row.reason) for row in rows}


def backlog_of(job: str) -> dict[datetime, tuple[str, str]]:
    rows = Occurrence.objects.filter(job__name=job, parent__isnull=False)
    return {row.scheduled_for: (row.state, row.reason) for row in rows}


def check(harness: Harness, job: str, paused: list[datetime], backlog: Backlog, overlap: Overlap) -> None:
    past = {at: outcome for at, outcome in ledger(job).items() if at <= harness.now}
    assert past == dict.fromkeys(paused, PAUSED), job
    assert backlog_of(job) == TABLE[backlog, overlap].outcomes(paused), job
    assert list(verify(control.get_job(job), now=harness.now)) == [], job


@pytest.mark.parametrize("downtime", DOWNTIMES)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("backlog", Backlog)
def test_pause_stop_the_beats_resume_gives_the_ledger_of_the_table(
    harness: Harness, backlog: Backlog, overlap: Overlap, downtime: str
) -> None:
    """For each recovery strategy: none of them sees an instant of the pause."""
    length, schedule = DOWNTIMES[downtime]
    jobs = begin(harness, schedule, overlap)
    for job in jobs:
        assert harness.pause(job)
    harness.pass_time(seconds=length.total_seconds())
    for job in jobs:
        assert harness.resume(job, backlog=backlog)
    settle_down(harness)
    for job in jobs:
        paused = instants_of(job, START, START + length)
        assert len(paused) in (5, 6, 7)
        check(harness, job, paused, backlog, overlap)


def test_a_beat_that_runs_during_the_pause_changes_nothing(harness: Harness) -> None:
    """The same ledger as without one, for each backlog: a beat stops and starts twice during the pause."""
    for backlog, strategy in product(Backlog, RECOVERIES):
        Job(f"{backlog} {strategy}", "*/10 * * * *", **RECOVERIES[strategy]).task(noop)
    harness.start_at(START)
    harness.tick()
    names = list(JobRow.objects.values_list("name", flat=True))
    for name in names:
        harness.pause(name)
    for minutes in (25, 1, 14, 20):
        harness.pass_time(minutes=minutes)
        harness.tick()
    for name in names:
        harness.resume(name, backlog=name.split()[0])
    settle_down(harness)
    for name in names:
        paused = instants_of(name, START, START + HOUR)
        check(harness, name, paused, Backlog(name.split()[0]), Overlap.SKIP)


@pytest.mark.parametrize("strategy", RECOVERIES)
def test_downtime_after_the_resume_is_left_to_the_recovery_strategy(
    harness: Harness, strategy: Recovery
) -> None:
    Job("job", "*/10 * * * *", overlap="allow", **RECOVERIES[strategy]).task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job")
    harness.pass_time(minutes=60)
    harness.resume("job")
    resumed_at = harness.now
    harness.pass_time(minutes=65)
    settle_down(harness)
    later = instants_of("job", resumed_at, harness.now)
    past = ledger("job")
    assert {past[at] for at in instants_of("job", START, resumed_at)} == {PAUSED}
    ran = {
        Recovery.EXECUTE_ALL: later,
        Recovery.EXECUTE_LAST: later[-1:],
        Recovery.MARK_AS_MISSED: [],
        Recovery.BOUNDED_WINDOW: later[-2:],
        Recovery.COMPRESSED: later[-1:],
    }[strategy]
    lost = ("skipped", "compressed") if strategy is Recovery.COMPRESSED else ("missed", "downtime")
    assert {at: past[at] for at in later} == {at: ("completed", "") if at in ran else lost for at in later}
    assert list(verify(control.get_job("job"), now=harness.now)) == []


def test_a_month_of_minutes_is_one_range_and_its_backlog_is_bounded(harness: Harness) -> None:
    for backlog in Backlog:
        Job(backlog.value, "* * * * *").task(noop)
    harness.start_at(START)
    harness.tick()
    for backlog in Backlog:
        harness.pause(backlog.value)
    harness.pass_time(days=30)
    for backlog in Backlog:
        job = control.get_job(backlog.value)
        count = 30 * 24 * 60
        preview = preview_backlog(job, harness.now)
        runs = {Backlog.NONE: 0, Backlog.ALL: MAX_REPEATED}.get(backlog, 1)
        assert (preview.instants, preview.runs(backlog)) == (count, runs)
        harness.resume(backlog.value, backlog=backlog)
        rows = Occurrence.objects.filter(job=job, parent=None, scheduled_for__lte=harness.now)
        assert {(row.state, row.reason) for row in rows} == {PAUSED}
        assert sum(row.instants for row in rows) == count
        assert rows.count() < 10
        repeats = Occurrence.objects.filter(job=job, parent__isnull=False)
        assert repeats.count() == runs
        assert list(verify(control.get_job(backlog.value), now=harness.now)) == []
    (compressed,) = Occurrence.objects.filter(job__name="compressed", parent__isnull=False)
    assert compressed.covers is not None
    assert (compressed.covers["count"], len(compressed.covers["instants"])) == (30 * 24 * 60, 500)


# -- order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW])
def test_the_whole_backlog_runs_in_the_order_of_its_instants(harness: Harness, overlap: Overlap) -> None:
    ran: list[datetime] = []

    def record(ctx: Context) -> None:
        ran.append(ctx.scheduled_for)

    Job("job", "* * * * *", overlap=overlap).task(record)
    harness.start_at(START)
    harness.tick()
    harness.pause("job")
    harness.pass_time(minutes=40)
    harness.resume("job", backlog="all")
    settle_down(harness)
    assert ran == instants_of("job", START, START + 40 * MINUTE)


def test_a_backlog_that_a_second_pause_skips_can_still_be_run(harness: Harness) -> None:
    Job("job", "*/10 * * * *", overlap="queue").task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job")
    harness.pass_time(minutes=60)
    harness.resume("job", backlog="all")
    harness.pass_time(seconds=1)
    harness.pause("job")
    settle_down(harness)
    assert set(backlog_of("job").values()) == {PAUSED}
    harness.resume("job", backlog="all")
    settle_down(harness)
    ran = Occurrence.objects.filter(state="completed").order_by("started_at", "scheduled_for")
    assert [row.scheduled_for for row in ran] == instants_of("job", START, START + HOUR)
    assert list(verify(control.get_job("job"), now=harness.now)) == []


def test_the_backlog_of_a_job_edited_during_its_pause_has_the_instants_of_the_old_schedule(
    harness: Harness,
) -> None:
    job = Job("job", "* * * * *")
    job.task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job")
    harness.pass_time(minutes=1500)
    job.schedule = "0 0 * * *"
    harness.sync()
    edited_at = harness.now
    harness.pass_time(days=3)
    harness.resume("job", backlog="all")
    repeats = sorted(backlog_of("job"))
    minutes = [START.replace(second=0) + number * MINUTE for number in range(1, 1501)]
    assert repeats == [*minutes, *instants_of("job", edited_at, harness.now)]
    assert list(verify(control.get_job("job"), now=harness.now)) == []


# -- a pause with an end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("beats", ["run all the time", "start an hour later"])
@pytest.mark.parametrize("backlog", Backlog)
def test_a_beat_resumes_the_job_at_the_end_of_the_pause(
    harness: Harness, backlog: Backlog, beats: str
) -> None:
    Job("job", "*/10 * * * *", overlap="queue", recovery="mark_as_missed").task(noop)
    harness.start_at(START)
    harness.tick()
    until = START.replace(second=0) + HOUR
    assert harness.pause("job", until=until, backlog=backlog)
    if beats == "run all the time":
        harness.live(minutes=59, step=30)
        harness.live(minutes=2)
    else:
        harness.pass_time(minutes=121)
    settle_down(harness)
    job = control.get_job("job")
    assert (job.paused_at, job.paused_until, job.pause_backlog) == (None, None, "")
    paused = instants_of("job", START, until)[:-1]
    past = {at: outcome for at, outcome in ledger("job").items() if at <= harness.now}
    assert {at: past[at] for at in paused} == dict.fromkeys(paused, PAUSED)
    assert backlog_of("job") == TABLE[backlog, Overlap.QUEUE].outcomes(paused)
    after = {outcome for at, outcome in past.items() if at >= until}
    assert after == ({("completed", "")} if beats == "run all the time" else {("missed", "downtime")})
    assert list(verify(job, now=harness.now)) == []
    pause = Pause.objects.get()
    assert (pause.began_at, pause.ended_at, pause.backlog) == (START, until, backlog)


def test_an_operator_may_resume_before_the_end(harness: Harness) -> None:
    Job("job", "*/10 * * * *").task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job", until=START + HOUR, backlog="all")
    harness.pass_time(minutes=20)
    assert harness.resume("job", backlog="last")
    settle_down(harness)
    harness.live(minutes=50, step=30)
    assert len(backlog_of("job")) == 1
    assert list(verify(control.get_job("job"), now=harness.now)) == []


def test_raw_sql_gives_a_pause_its_end(harness: Harness) -> None:
    Job("job", "*/10 * * * *").task(noop)
    harness.start_at(START)
    harness.tick()
    JobRow.objects.update(paused_at=START, paused_until=START + 15 * MINUTE)
    harness.live(minutes=30, step=30)
    outcomes = [ledger("job")[at] for at in instants_of("job", START, harness.now)]
    assert outcomes == [PAUSED, ("completed", ""), ("completed", "")]
    assert list(verify(control.get_job("job"), now=harness.now)) == []


def test_a_schedule_that_cannot_be_read_does_not_keep_its_job_paused(harness: Harness) -> None:
    Job("job", "* * * * *").task(noop)
    Job("other", "* * * * *", overlap="allow").task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job", until=START + 40 * HOUR, backlog="all")
    harness.pass_time(hours=39)
    harness.tick()
    JobVersion.objects.filter(job__name="job").delete()
    JobRow.objects.filter(name="job").update(schedule="nonsense")
    harness.pass_time(hours=2)
    harness.tick()
    harness.work()
    assert not control.get_job("job").paused
    assert backlog_of("job") == {}
    assert ledger("other")[harness.now.replace(second=0)] == ("completed", "")


# -- crashes and tampering ---------------------------------------------------------------------------------


class PowerCutError(Exception):
    """The process died."""


@contextmanager
def dying_at(number: int) -> Iterator[list[int]]:
    """Die before the statement with this number; the list counts the statements."""
    count = [0]

    def maybe_die(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - Django's
        count[0] += 1
        if count[0] == number:
            raise PowerCutError
        return execute(sql, params, many, context)

    with connection.execute_wrapper(maybe_die):
        yield count


def snapshot() -> list[Any]:
    rows = Occurrence.objects.order_by("id").values_list("id", "state", "reason", "cause")
    jobs = JobRow.objects.values_list("paused_at", "paused_until")
    return [
        *rows,
        *jobs,
        *Cursor.objects.values_list("planned_until", "settled_until"),
        Pause.objects.count(),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_crash_at_any_statement_of_resume_leaves_the_job_paused(harness: Harness) -> None:
    Job("job", "*/10 * * * *").task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job")
    harness.pass_time(minutes=60)
    before = snapshot()
    number = 1
    while True:
        try:
            with dying_at(number):
                harness.resume("job", backlog="all")
            break
        except PowerCutError:
            assert snapshot() == before, number
            number += 1
    assert number > 5
    settle_down(harness)
    check(harness, "job", instants_of("job", START, START + HOUR), Backlog.ALL, Overlap.SKIP)


@pytest.fixture
def paused_for_an_hour(harness: Harness) -> Harness:
    """Six instants ran, six fell into a pause without a beat; one of those ran later."""
    Job("job", "*/10 * * * *").task(noop)
    harness.start_at(START)
    harness.tick()
    for _ in range(6):
        harness.pass_time(minutes=10)
        harness.tick()
        harness.work()
    harness.pause("job")
    harness.pass_time(minutes=60)
    harness.resume("job", backlog="last")
    settle_down(harness)
    assert list(verify(control.get_job("job"), now=harness.now)) == []
    return harness


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"state": "missed", "reason": "downtime"}, Kind.UNSETTLED),
        ({"reason": "overlap"}, Kind.UNSETTLED),
        ({"state": "completed", "reason": ""}, Kind.UNSETTLED),
        ({"state": "pending", "reason": "", "finished_at": None}, Kind.UNSETTLED),
        ({"finished_at": START}, Kind.UNPAUSED),
    ],
)
def test_verify_notices_an_instant_of_a_pause_that_was_not_settled(
    paused_for_an_hour: Harness, columns: dict[str, Any], kind: Kind
) -> None:
    row = Occurrence.objects.filter(reason="paused").order_by("scheduled_for")[2]
    Occurrence.objects.filter(pk=row.pk).update(**columns)
    differences = list(verify(control.get_job("job"), now=paused_for_an_hour.now))
    assert (kind, row.id) in {(item.kind, item.occurrence) for item in differences}


def test_verify_notices_a_pause_that_left_its_instants_to_the_recovery_strategy(harness: Harness) -> None:
    """What the code did before: the pause ends, and nothing is settled."""
    Job("job", "*/10 * * * *", recovery="execute_last").task(noop)
    harness.start_at(START)
    harness.tick()
    harness.pause("job")
    harness.pass_time(minutes=60)
    Pause.objects.create(job=control.get_job("job"), began_at=START, ended_at=harness.now, backlog="none")
    JobRow.objects.update(paused_at=None)
    settle_down(harness)
    differences = list(verify(control.get_job("job"), now=harness.now))
    assert [item.kind for item in differences] == [Kind.UNSETTLED] * 6


def test_verify_notices_a_row_skipped_by_a_pause_that_never_was(paused_for_an_hour: Harness) -> None:
    row = paused_for_an_hour.occurrences("job")[2]
    assert row.state == "completed"
    row.runs.all().delete()
    changes = {"state": "skipped", "reason": "paused", "fired_at": None}
    Occurrence.objects.filter(pk=row.pk).update(**changes)
    (difference,) = verify(control.get_job("job"), now=paused_for_an_hour.now)
    assert (difference.kind, difference.occurrence) == (Kind.UNPAUSED, row.id)
