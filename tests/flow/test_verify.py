"""Whatever happens to jobs, the ledger equals what is owed; and whoever tampers with it is found."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs import Context, Job, control
from jobs.definition import Definition, TaskDefinition
from jobs.ledger import connected
from jobs.models import Job as JobRow
from jobs.models import Origin
from jobs.policy import Update, UpdatePolicy
from jobs.registry import TaskFunction, registry
from jobs.store import Change, store
from occurrences import transitions
from occurrences.models import Cursor, Occurrence
from recovery.coverage import Kind
from recovery.owed import owed
from recovery.verify import pieces_of, verify
from tests.harness import START, Harness

pytestmark = [pytest.mark.req("OCC-5")]

SCHEDULES = [
    "* * * * *",
    "*/15 * * * * *",
    "@every 50s",
    "@every 20s-90s",
    "0 13 * * *",
    "posix:*/2 * * * *",
    "iso8601:R/2026-01-05T00:00:00Z/PT45S",
    "* * * * * {stagger:30s, jitter:20s}",
    "*/20 * * * * * {max:4}",
    "* * * * * {window:5s, jitter:9s}",
]
CONFIGS: list[dict[str, Any]] = [
    {"overlap": "allow", "recovery": "execute_all"},
    {"recovery": "execute_last"},
    {"overlap": "queue", "recovery": "compressed"},
    {"recovery": "mark_as_missed", "spread": "@win(around,2m)"},
    {"recovery": "bounded_window", "recovery_max_occurrences": 3, "spread": "@win(after,30s)"},
]


def noop(ctx: Context) -> None: ...


def stored(
    schedule: str, now: datetime, config: int = 0, *, enabled: bool = True, policy: str = "immediate"
) -> None:
    registry.add_function(TaskFunction("verified.noop", noop))
    steps = (TaskDefinition("step", "verified.noop"),)
    wanted = Definition("job", schedule, CONFIGS[config], {}, steps, enabled=enabled)
    store([wanted], Change(Origin.ADMIN, "editor", now, policy=UpdatePolicy(Update(policy))))


def differences(name: str, now: datetime) -> list[tuple[str, int]]:
    return [(item.kind, item.count) for item in verify(control.get(name), now=now)]


edit = st.tuples(
    st.sampled_from(SCHEDULES),
    st.integers(0, len(CONFIGS) - 1),
    st.booleans(),
    st.sampled_from(["immediate", "graceful", "windowed"]),
)
words = st.sampled_from(["tick", "two ticks", "nothing", "pause", "resume", "trigger", "skip", "raw edit"])
happenings = st.lists(
    st.tuples(st.sampled_from([1, 7, 45, 60, 200, 7200]), st.one_of(words, edit)),
    min_size=2,
    max_size=12,
)


def happen(harness: Harness, action: object) -> None:
    rows = JobRow.objects.filter(name="job")
    match action:
        case "tick":
            harness.tick()
        case "two ticks":
            harness.tick(sweeping=False)
            harness.tick(sweeping=False)
        case "pause" | "resume":
            rows.update(paused_at=harness.now if action == "pause" else None)
        case "trigger":
            connected().trigger(rows.get(), args={}, now=harness.now)
        case "skip":
            connected().skip_next(rows.get(), now=harness.now)
        case "raw edit":
            rows.update(schedule="*/3 * * * *", updated_at=harness.now)
        case (str(schedule), int(config), bool(enabled), str(policy)):
            stored(schedule, harness.now, config, enabled=enabled, policy=policy)


def come_to_rest(harness: Harness) -> None:
    """Ticks until planning is up to date; nobody works, an operator does away with what waits."""
    for _ in range(100):
        harness.tick()
        harness.lose_messages()
        waiting = Occurrence.objects.filter(state="queued").values_list("id", flat=True)
        transitions.skip(list(waiting), reason="operator", now=harness.now)
        ahead = Cursor.objects.get().plan_at
        if ahead is None or ahead > harness.now + timedelta(seconds=1):
            return
        harness.pass_time(seconds=2)
    pytest.fail("planning never came to rest")


@example(  # a graceful edit that keeps what raw SQL had changed a moment before
    [(1, "tick"), (1, "raw edit"), (1, ("* * * * *", 0, True, "graceful")), (200, "tick")],
    SCHEDULES[4],
    0,
    None,
)
@given(happenings, st.sampled_from(SCHEDULES), st.integers(0, len(CONFIGS) - 1), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_the_ledger_equals_what_is_owed(
    harness: Harness, steps: list[tuple[int, object]], schedule: str, config: int, data: st.DataObject | None
) -> None:
    Occurrence.objects.all().delete()
    JobRow.objects.all().delete()
    harness.now = START
    stored(schedule, START, config)
    for seconds, action in steps:
        harness.pass_time(seconds=seconds)
        happen(harness, action)
    harness.pass_time(seconds=30)
    come_to_rest(harness)
    assert differences("job", harness.now) == []

    past = Occurrence.objects.filter(cause__in=("schedule", "recovery"), scheduled_for__lte=harness.now)
    known = [row for row in past.order_by("scheduled_for") if is_owed(row, harness.now)]
    if known and data is not None:
        victim = data.draw(st.sampled_from(known))
        double(victim, harness.now)
        assert differences("job", harness.now) == [(Kind.DOUBLED, victim.instants)]
        Occurrence.objects.filter(job=victim.job_id, scheduled_for=victim.scheduled_for).delete()
        assert differences("job", harness.now) == [(Kind.MISSING, victim.instants)]


def is_owed(row: Occurrence, now: datetime) -> bool:
    """Not one that an edit kept, and not where raw SQL left nothing to tell."""
    pieces = pieces_of(row.job, now)
    return row.scheduled_for in set(owed(pieces, START, now))


def double(row: Occurrence, now: datetime) -> None:
    row.id = uuid4()
    row.cause, row.state, row.finished_at = "schedule", "missed", now
    row.save(force_insert=True)


@pytest.fixture
def lived(harness: Harness) -> Harness:
    Job("job", "* * * * *").task(noop)
    Job("other", "@hourly").task(noop)
    harness.sync()
    for _ in range(6):
        harness.pass_time(minutes=1)
        harness.tick()
        harness.work()
    assert differences("job", harness.now) == differences("other", harness.now) == []
    return harness


def test_a_row_taken_away_is_missing(lived: Harness) -> None:
    lived.occurrences("job")[2].delete()
    assert differences("job", lived.now) == [(Kind.MISSING, 1)]
    since, until = lived.now - timedelta(minutes=2), lived.now - timedelta(minutes=5)
    assert list(verify(control.get("job"), now=lived.now, since=since)) == []
    assert list(verify(control.get("job"), now=lived.now, until=until)) == []


def test_a_row_moved_to_another_instant_is_missing_here_and_unowed_there(lived: Harness) -> None:
    row = lived.occurrences("job")[2]
    Occurrence.objects.filter(id=row.id).update(scheduled_for=row.scheduled_for + timedelta(seconds=1))
    assert differences("job", lived.now) == [(Kind.MISSING, 1), (Kind.UNOWED, 1)]


def test_beats_that_stopped_are_told_by_what_is_unplanned_and_unfired(lived: Harness) -> None:
    planned = len([row for row in lived.occurrences("job") if row.state == "pending"])
    lived.pass_time(minutes=30)  # two minutes of them are patience and grace
    assert differences("job", lived.now) == [(Kind.UNPLANNED, 28 - planned), *[(Kind.UNFIRED, 1)] * planned]


def test_a_removed_job_owes_until_its_removal_and_after_its_return(harness: Harness) -> None:
    job = Job("job", "* * * * *", recovery="execute_all", overlap="allow")
    job.task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=10)  # nobody ticks
    del registry.jobs["job"]
    assert harness.sync().removed == ("job",)
    harness.pass_time(minutes=10)
    harness.tick()
    assert differences("job", harness.now) == []
    assert Occurrence.objects.filter(job__name="job", scheduled_for__lte=harness.now).count() == 10
    assert [row.reason for row in control.get("job").versions.order_by("number")][
        -1
    ] == "no longer declared in code"
    registry.jobs["job"] = job
    harness.sync()
    harness.pass_time(minutes=5)
    harness.tick()
    assert differences("job", harness.now) == []


@pytest.mark.req("OPS-3")
def test_the_command_lists_every_difference_and_fails_on_any(lived: Harness) -> None:
    past = lived.now  # the command reads the database's clock, years from here
    out = StringIO()
    call_command("ledger", "verify", "--to", past.isoformat(), stdout=out)
    assert out.getvalue().strip() == "2 jobs compared, 0 differences"
    gone = lived.occurrences("job")[2]
    gone.delete()
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("ledger", "verify", "--job", "job", "--to", past.isoformat(), "--json", stdout=out)
    assert ended.value.code == 1
    assert json.loads(out.getvalue()) == [
        {
            "job": "job",
            "kind": "missing",
            "from": gone.scheduled_for.isoformat(),
            "to": gone.scheduled_for.isoformat(),
            "count": 1,
            "occurrence": None,
        },
        {"jobs": 1, "differences": 1},
    ]
