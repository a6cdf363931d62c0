"""After an outage of any length every instant has one disposition, for every strategy and schedule."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection

from punctual import Context, Job
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import Origin
from punctual.jobs.store.definitions import Change, store
from punctual.occurrences import transitions
from punctual.occurrences.models import Cursor, Occurrence, Pool
from punctual.occurrences.planning.paused_instants import run_skipped
from punctual.occurrences.states import Reason
from tests.harness import Harness

MINUTE = timedelta(minutes=1)
BEGIN = datetime(2026, 1, 5, 11, 59, tzinfo=UTC)
FIRST = datetime(2026, 1, 5, 12, tzinfo=UTC)  # the instant planned before the outage
GRACE = timedelta(seconds=60)

KINDS = {
    "cron": "* * * * *",
    "cron with seconds, in a zone": "TZ=Asia/Kolkata 0 * * * * *",
    "interval": "@every 60s",
    "posix": "posix:* * * * *",
    "iso": "iso8601:R/2026-01-01T00:00:00Z/PT1M",
    "kron": "kron:* * * * *",
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "all": {"recovery": "execute_all"},
    "last": {"recovery": "execute_last"},
    "none": {"recovery": "mark_as_missed"},
    "newest three": {"recovery": "bounded_window", "recovery_max_occurrences": 3},
    "of ten minutes": {"recovery": "bounded_window", "recovery_max_duration": "10m"},
    "newest three of two minutes": {
        "recovery": "bounded_window",
        "recovery_max_occurrences": 3,
        "recovery_max_duration": "2m",
    },
    "compressed": {"recovery": "compressed"},
}
OUTAGES = {"one": 1, "many": 30, "thousands": 2500}


def noop(ctx: Context) -> None: ...


def outage(harness: Harness, schedule: str, minutes: int, **config: Any) -> datetime:
    """Plan a job, then stop all beats for so many minutes; return the moment a beat is back."""
    Pool.objects.update_or_create(name="default", defaults={"size": 10_000})
    Job("job", schedule, overlap="allow", **config).task(noop)
    harness.start_at(BEGIN)
    harness.tick()
    harness.now = FIRST + minutes * MINUTE + timedelta(seconds=30)
    return harness.now


def late(now: datetime) -> list[datetime]:
    """The full minutes whose grace is over, computed independently."""
    return [
        at for number in range((now - FIRST) // MINUTE + 1) if (at := FIRST + number * MINUTE) + GRACE <= now
    ]


def dispositions(job: str = "job") -> dict[datetime, tuple[str, str, str]]:
    """State, reason and cause of each instant, with ranges expanded; no instant may appear twice."""
    by_instant: dict[datetime, tuple[str, str, str]] = {}
    for row in Occurrence.objects.filter(job__name=job).order_by("scheduled_for"):
        instants = [row.scheduled_for + number * MINUTE for number in range(row.instants)]
        assert instants[-1] == (row.spans_until or row.scheduled_for)
        assert not by_instant.keys() & set(instants)
        by_instant |= dict.fromkeys(instants, (row.state, row.reason, row.cause))
    return by_instant


def expected(strategy: str, now: datetime) -> dict[datetime, tuple[str, str, str]]:
    missed = late(now)
    runs = {
        "all": missed,
        "last": missed[-1:],
        "none": [],
        "newest three": missed[-3:],
        "of ten minutes": [at for at in missed if at >= now - 10 * MINUTE],
        "newest three of two minutes": [at for at in missed if at >= now - 2 * MINUTE],
        "compressed": missed[-1:],
    }[strategy]
    dropped = ("skipped", "compressed") if strategy == "compressed" else ("missed", "downtime")
    return {at: ("completed", "", "recovery") if at in runs else (*dropped, "schedule") for at in missed} | {
        FIRST + (len(missed)) * MINUTE: ("completed", "", "schedule")
    }


def past(now: datetime) -> dict[datetime, tuple[str, str, str]]:
    return {at: what for at, what in dispositions().items() if at <= now}


@pytest.mark.req("REC-1")
@pytest.mark.req("OCC-5")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", OUTAGES)
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "all"])
def test_after_an_outage_every_instant_is_handled_by_the_strategy(
    harness: Harness, strategy: str, length: str, kind: str
) -> None:
    now = outage(harness, KINDS[kind], OUTAGES[length], **STRATEGIES[strategy])
    harness.tick()
    harness.work()
    assert past(now) == expected(strategy, now)
    rows = Occurrence.objects.count()
    harness.tick()
    harness.work()
    assert past(now) == expected(strategy, now), "a second tick changes nothing"
    assert Occurrence.objects.count() == rows < 1100


@pytest.mark.req("REC-1")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("minutes", [1, 30])
def test_execute_all_runs_everything_in_order(harness: Harness, kind: str, minutes: int) -> None:
    now = outage(harness, KINDS[kind], minutes, **STRATEGIES["all"])
    harness.tick()
    harness.work()
    assert past(now) == expected("all", now)
    ran = list(Occurrence.objects.filter(state="completed").order_by("started_at", "run_at"))
    assert [row.scheduled_for for row in ran] == sorted(row.scheduled_for for row in ran)


@pytest.mark.req("REC-1")
@pytest.mark.req("REC-2")
def test_execute_all_recovers_thousands_of_instants_in_portions_and_in_order(harness: Harness) -> None:
    now = outage(harness, KINDS["cron"], 3500, **STRATEGIES["all"])
    Pool.objects.update(size=1)
    portions: list[int] = []
    seen: list[datetime] = []
    for _ in range(20):
        harness.tick()
        waiting = Occurrence.objects.filter(state__in=("queued", "pending"), scheduled_for__lte=now)
        recovered = waiting.filter(cause="recovery").order_by("scheduled_for")
        fresh = [row.scheduled_for for row in recovered if not seen or row.scheduled_for > seen[-1]]
        seen += fresh
        portions.append(waiting.count())
        assert Cursor.objects.get().problem == ""
        assert waiting.count() <= 21_000, "memory and tick stay bounded"
        # Workers would run most of what waits; here an operator skips it.
        ids = list(waiting.order_by("scheduled_for").values_list("id", flat=True)[:700])
        transitions.skip(ids, reason=Reason.OPERATOR, now=harness.now)
        harness.pass_time(seconds=1)

    assert max(portions) >= 900
    assert sorted(past(now)) == [*late(now), late(now)[-1] + MINUTE], "none missing, none twice"
    assert not [what for what in past(now).values() if what[0] == "missed"]


@pytest.mark.req("REC-1")
def test_what_shall_run_is_planned_within_seconds_so_that_live_instants_follow(harness: Harness) -> None:
    outage(harness, KINDS["cron"], 5000, **STRATEGIES["all"])
    Pool.objects.update(size=1)
    for _ in range(5):
        harness.tick()
        harness.pass_time(seconds=5)
    assert Occurrence.objects.filter(cause="recovery").count() == 5000


@pytest.mark.req("REC-1")
@pytest.mark.parametrize("length", OUTAGES)
def test_a_compressed_run_records_the_span_the_number_and_the_newest_instants_it_covers(
    harness: Harness, length: str
) -> None:
    now = outage(harness, KINDS["cron"], OUTAGES[length], **STRATEGIES["compressed"])
    harness.tick()
    harness.work()
    (row,) = Occurrence.objects.exclude(covers=None)
    missed = late(now)
    assert row.covers is not None
    assert row.covers == {
        "from": missed[0].isoformat(),
        "until": missed[-1].isoformat(),
        "count": len(missed),
        "instants": [at.isoformat() for at in missed[-len(row.covers["instants"]) :]],
    }
    assert len(row.covers["instants"]) == min(len(missed), 500)
    assert (row.state, row.cause) == ("completed", "recovery")


@pytest.mark.req("REC-1")
@pytest.mark.req("EXE-6")
def test_the_function_of_a_compressed_run_receives_what_it_covers(harness: Harness) -> None:
    received: list[tuple[object, ...]] = []

    def summary(ctx: Context) -> None:
        if ctx.covers:  # a live instant comes first
            received.append((ctx.covers_from, ctx.covers[-1], ctx.covers_count, ctx.cause))

    Job("job", KINDS["cron"], recovery="compressed").task(summary)
    harness.start_at(BEGIN)
    harness.tick()
    harness.now = FIRST + 3000 * MINUTE + timedelta(seconds=30)
    missed = late(harness.now)
    harness.tick()
    harness.work()
    assert received == [(missed[0], missed[-1], len(missed), "recovery")]


@pytest.mark.req("REC-1")
@pytest.mark.req("OCC-5")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_year_of_missed_minutes_takes_a_bounded_number_of_rows(harness: Harness, strategy: str) -> None:
    now = outage(harness, KINDS["cron"], 525_600, **STRATEGIES[strategy])
    Pool.objects.update(size=1)
    harness.tick()
    assert Occurrence.objects.count() < 1100
    if strategy == "all":
        return
    accounted = sum(Occurrence.objects.filter(scheduled_for__lte=now).values_list("instants", flat=True))
    assert accounted == 525_601
    assert Occurrence.objects.filter(instants__gt=1).count() == 6


@pytest.mark.req("REC-2")
@pytest.mark.parametrize("strategy", ["last", "newest three", "compressed"])
@pytest.mark.parametrize("length", ["many", "thousands"])
def test_a_beat_that_dies_at_any_statement_of_recovery_leaves_the_same_result(
    harness: Harness, strategy: str, length: str
) -> None:
    now = outage(harness, KINDS["cron"], OUTAGES[length], **STRATEGIES[strategy])
    for survived in count():
        with dying_after(survived) as died:
            harness.tick()
        if not died:
            break
    assert survived > 10
    harness.pass_time(seconds=6)  # the sweep sends what was committed but not sent
    harness.tick()
    harness.work()
    assert past(now) == expected(strategy, now)
    assert Counter(run.state for run in harness.runs("job")) == {
        "success": len([what for what in past(now).values() if what[0] == "completed"])
    }


class PowerCut(BaseException):
    """Nothing in the code may catch this."""


@contextmanager
def dying_after(statements: int) -> Iterator[list[int]]:
    """Kill the process at its n-th statement; what is not committed is lost."""
    sent = 0
    died: list[int] = []

    def maybe_die(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - Django's signature
        nonlocal sent
        if sent == statements and not died:
            died.append(sent)
            raise PowerCut
        sent += 1
        return execute(sql, params, many, context)

    try:
        with connection.execute_wrapper(maybe_die):
            yield died
    except PowerCut:
        pass


@pytest.mark.req("JOB-8")
@pytest.mark.req("OCC-5")
@pytest.mark.parametrize("length", OUTAGES)
def test_late_instants_of_a_paused_job_are_recorded_as_skipped(harness: Harness, length: str) -> None:
    now = outage(harness, KINDS["cron"], OUTAGES[length], **STRATEGIES["last"])
    JobRow.objects.update(paused_at=BEGIN)
    harness.tick()
    assert set(past(now).values()) == {("skipped", "paused", "schedule")}
    assert len(past(now)) == OUTAGES[length] + 1


@pytest.mark.req("CHX-12")
@pytest.mark.parametrize("length", OUTAGES)
def test_a_recovered_instant_outside_its_window_is_missed(harness: Harness, length: str) -> None:
    now = outage(harness, "* * * * * {window:30s}", OUTAGES[length], **STRATEGIES["last"])
    harness.tick()
    *older, last_late, _ = past(now).values()
    assert last_late[:2] == ("missed", "window")
    assert set(older) <= {("missed", "downtime", "schedule")}


@pytest.mark.req("KRN-11")
def test_an_instant_whose_start_time_is_in_the_future_is_not_missed(harness: Harness) -> None:
    now = outage(harness, KINDS["cron"], 2500, spread="@win(after,2h)", **STRATEGIES["none"])
    harness.tick()
    harness.work()
    waiting = Occurrence.objects.filter(state="pending", scheduled_for__lte=now)
    assert waiting.filter(run_at__gt=now).exists()
    assert not Occurrence.objects.filter(state="missed", run_at__gt=now - GRACE).exists()
    assert len(past(now)) == 2501


@pytest.mark.req("CHX-13")
def test_max_limits_the_instants_recovered_after_an_outage(harness: Harness) -> None:
    now = outage(harness, "* * * * * {max:3}", 2500, **STRATEGIES["all"])
    for _ in range(3):
        harness.tick()
        harness.work()
        harness.pass_time(seconds=1)
    ran = [at for at, what in past(now).items() if what[0] == "completed"]
    assert ran == late(now)[:3]


@pytest.mark.req("JOB-6")
@pytest.mark.req("OCC-5")
@pytest.mark.parametrize("strategy", ["last", "all", "compressed", "none"])
def test_an_edit_after_an_outage_accounts_for_every_instant_of_the_old_definition(
    harness: Harness, strategy: str
) -> None:
    registry.add_function(TaskFunction("noop", noop))
    Pool.objects.update_or_create(name="default", defaults={"size": 1})
    config = {"overlap": "allow", **STRATEGIES[strategy]}
    definition = Definition("job", "* * * * *", config, {}, (TaskDefinition("step", "noop"),), enabled=True)
    store([definition], Change(Origin.ADMIN, "editor", BEGIN))
    harness.now = BEGIN
    harness.tick()
    harness.now = now = FIRST + 15_000 * MINUTE + timedelta(seconds=30)
    edited = Definition("job", "0 0 1 1 *", config, {}, definition.tasks, enabled=True)
    store([edited], Change(Origin.ADMIN, "editor", now))
    harness.tick()

    assert sorted(past(now)) == [FIRST + number * MINUTE for number in range(15_001)]
    reasons = Counter(what[1] for what in past(now).values() if what[0] == "missed")
    assert reasons == {
        "last": {"downtime": 14_999},
        "none": {"downtime": 15_000},
        "all": {"edited": 5000},
    }.get(strategy, {})


def test_an_instant_skipped_by_an_operator_keeps_its_own_row(harness: Harness) -> None:
    now = outage(harness, KINDS["cron"], 2500, **STRATEGIES["none"])
    transitions.skip([harness.occurrences("job")[0].id], reason=Reason.OPERATOR, now=BEGIN)
    Cursor.objects.update(planned_until=None, plan_at=BEGIN)  # as after an edit by raw SQL
    JobRow.objects.update(updated_at=BEGIN)
    harness.tick()
    assert past(now)[FIRST] == ("skipped", "operator", "schedule")
    assert sorted(past(now)) == [*late(now), late(now)[-1] + MINUTE]


@pytest.mark.req("JOB-8")
@pytest.mark.parametrize("backlog", ["last", "all", "compressed"])
def test_resuming_runs_the_instants_of_a_range_as_the_operator_chooses(
    harness: Harness, backlog: str
) -> None:
    now = outage(harness, KINDS["cron"], 2500, **STRATEGIES["last"])
    JobRow.objects.update(paused_at=BEGIN)
    harness.tick()
    skipped = sorted(at for at, what in past(now).items() if what[1] == "paused")
    job = JobRow.objects.get()
    assert [harness.resume("job", backlog=backlog) for _ in range(2)] == [True, False]
    assert run_skipped(job, choice=backlog, since=BEGIN, now=now), "a second call adds nothing"
    rows = list(Occurrence.objects.filter(cause="recovery").order_by("scheduled_for"))
    assert [row.scheduled_for for row in rows] == (skipped if backlog == "all" else skipped[-1:])
    assert rows == sorted(rows, key=lambda row: row.run_at)
    covers = rows[-1].covers or {}
    span = (skipped[0].isoformat(), skipped[-1].isoformat(), len(skipped))
    assert (covers.get("from"), covers.get("until"), covers.get("count")) == (
        span if backlog == "compressed" else (None, None, None)
    )


@pytest.mark.req("REC-1")
def test_a_window_larger_than_one_portion_is_exact(harness: Harness) -> None:
    now = outage(harness, KINDS["cron"], 3000, recovery="bounded_window", recovery_max_occurrences=1500)
    Pool.objects.update(size=1)
    for _ in range(8):
        harness.tick()
        waiting = Occurrence.objects.filter(state__in=("queued", "pending"), scheduled_for__lte=now)
        ids = list(waiting.filter(cause="recovery").values_list("id", flat=True)[:800])
        transitions.skip(ids, reason=Reason.OPERATOR, now=harness.now)
        harness.pass_time(seconds=1)
    kept = [at for at, what in past(now).items() if what[2] == "recovery"]
    assert kept == late(now)[-1500:]
    assert sorted(past(now)) == [*late(now), late(now)[-1] + MINUTE]
