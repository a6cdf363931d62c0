"""After any history of a job the ledger holds exactly the owed instants; every tampering is found."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from punctual import Context, Job
from punctual.jobs import control
from punctual.jobs.config.choices import Update
from punctual.jobs.declaration.registry import TaskFunction, registry
from punctual.jobs.definition.document import Definition, TaskDefinition
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.models import Job as JobRow
from punctual.jobs.models import Origin
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences import transitions
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import Reason
from punctual.recovery.verification.coverage import Kind
from punctual.recovery.verification.segments import owed_instants
from punctual.recovery.verification.verify import job_segments, verify
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


def store_job(
    schedule: str, now: datetime, config: int = 0, *, enabled: bool = True, policy: str = "immediate"
) -> None:
    registry.add_function(TaskFunction("verified.noop", noop))
    steps = (TaskDefinition("step", "verified.noop"),)
    definition = Definition("job", schedule, CONFIGS[config], {}, steps, enabled=enabled)
    store([definition], Change(Origin.ADMIN, "editor", now, policy=UpdatePolicy(Update(policy))))


def differences(name: str, now: datetime) -> list[tuple[str, int]]:
    return [(item.kind, item.count) for item in verify(control.get_job(name), now=now)]


edit = st.tuples(
    st.sampled_from(SCHEDULES),
    st.integers(0, len(CONFIGS) - 1),
    st.booleans(),
    st.sampled_from(["immediate", "graceful", "windowed"]),
)
PAUSES = ["pause", "pause for 90 s", "resume none", "resume all", "resume compressed"]
words = st.sampled_from(["tick", "two ticks", "nothing", "trigger", "skip", "raw edit", *PAUSES])
histories = st.lists(
    st.tuples(st.sampled_from([1, 7, 45, 60, 200, 7200]), st.one_of(words, edit)),
    min_size=2,
    max_size=12,
)


def perform(harness: Harness, action: object) -> None:
    rows = JobRow.objects.filter(name="job")
    match action:
        case "tick":
            harness.tick()
        case "two ticks":
            harness.tick(sweeping=False)
            harness.tick(sweeping=False)
        case str(word) if word in PAUSES:
            pause_or_resume(harness, word)
        case "trigger":
            connected_ledger().trigger(rows.get(), args={}, now=harness.now)
        case "skip":
            connected_ledger().skip_next(rows.get(), now=harness.now)
        case "raw edit":
            rows.update(schedule="*/3 * * * *", updated_at=harness.now)
        case (str(schedule), int(config), bool(enabled), str(policy)):
            store_job(schedule, harness.now, config, enabled=enabled, policy=policy)


def pause_or_resume(harness: Harness, word: str) -> None:
    if word.startswith("resume"):
        harness.resume("job", backlog=word.removeprefix("resume "))
    else:
        until = harness.now + timedelta(seconds=90) if word.endswith("90 s") else None
        harness.pause("job", until=until, backlog="last")


def finish_planning(harness: Harness) -> None:
    """Tick until planning and catch-up are up to date. No worker runs; an operator skips what waits."""
    for _ in range(100):
        harness.tick()
        harness.lose_messages()
        waiting = Occurrence.objects.filter(state="queued").values_list("id", flat=True)
        transitions.skip(list(waiting), reason=Reason.OPERATOR, now=harness.now)
        plan_at = Cursor.objects.get().plan_at
        planned = plan_at is None or plan_at > harness.now + timedelta(seconds=1)
        # Catch-up waits until the newest instant of an outage is late as well.
        if planned and not Occurrence.objects.due(harness.now).exists():
            return
        harness.pass_time(seconds=2)
    pytest.fail("planning never finished")


@pytest.mark.soak
@example([(1, "tick"), (7200, ("* * * * *", 0, True, "immediate"))], SCHEDULES[0], 1, None)
@example(  # a graceful edit right after an edit by raw SQL
    [(1, "tick"), (1, "raw edit"), (1, ("* * * * *", 0, True, "graceful")), (200, "tick")],
    SCHEDULES[4],
    0,
    None,
)
@given(histories, st.sampled_from(SCHEDULES), st.integers(0, len(CONFIGS) - 1), st.data())
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_after_any_history_the_ledger_holds_exactly_the_owed_instants(
    harness: Harness, steps: list[tuple[int, object]], schedule: str, config: int, data: st.DataObject | None
) -> None:
    Occurrence.objects.all().delete()
    JobRow.objects.all().delete()
    harness.now = START
    store_job(schedule, START, config)
    for seconds, action in steps:
        harness.pass_time(seconds=seconds)
        perform(harness, action)
    harness.pass_time(seconds=30)
    finish_planning(harness)
    assert differences("job", harness.now) == []

    past = Occurrence.objects.filter(cause__in=("schedule", "recovery"), scheduled_for__lte=harness.now)
    past = past.filter(parent=None)  # not the backlog of a pause
    known = [row for row in past.order_by("scheduled_for") if is_owed(row, harness.now)]
    if known and data is not None:
        victim = data.draw(st.sampled_from(known))
        double(victim, harness.now)
        found = differences("job", harness.now)
        assert (Kind.DOUBLED, victim.instants) in found
        # Beside a pause, the disposition of the second row is a mistake of its own.
        assert {kind for kind, _ in found} <= {Kind.DOUBLED, Kind.UNSETTLED, Kind.UNPAUSED}
        Occurrence.objects.filter(job=victim.job_id, scheduled_for=victim.scheduled_for, parent=None).delete()
        assert differences("job", harness.now) == [(Kind.MISSING, victim.instants)]


def is_owed(row: Occurrence, now: datetime) -> bool:
    """False for a row that an edit kept, and for one in a stretch that an edit by raw SQL left unknown."""
    segments = job_segments(row.job, now)
    return row.scheduled_for in set(owed_instants(segments, START, now))


def double(row: Occurrence, now: datetime) -> None:
    row.id = uuid4()
    row.cause, row.finished_at, row.holds_slot = "schedule", now, False
    if row.reason != Reason.PAUSED:  # an instant of a pause stays one
        row.state, row.reason, row.run_at = "missed", "downtime", row.created_at
    row.fired_at = row.started_at = None
    row.save(force_insert=True)


@pytest.fixture
def history(harness: Harness) -> Harness:
    Job("job", "* * * * *").task(noop)
    Job("other", "@hourly").task(noop)
    harness.sync()
    for _ in range(6):
        harness.pass_time(minutes=1)
        harness.tick()
        harness.work()
    assert differences("job", harness.now) == differences("other", harness.now) == []
    return harness


def test_a_deleted_row_is_missing(history: Harness) -> None:
    history.occurrences("job")[2].delete()
    assert differences("job", history.now) == [(Kind.MISSING, 1)]
    since, until = history.now - timedelta(minutes=2), history.now - timedelta(minutes=5)
    assert list(verify(control.get_job("job"), now=history.now, since=since)) == []
    assert list(verify(control.get_job("job"), now=history.now, until=until)) == []


def test_a_row_moved_to_another_instant_is_missing_and_unowed(history: Harness) -> None:
    row = history.occurrences("job")[2]
    Occurrence.objects.filter(id=row.id).update(scheduled_for=row.scheduled_for + timedelta(seconds=1))
    assert differences("job", history.now) == [(Kind.MISSING, 1), (Kind.UNOWED, 1)]


def test_when_beats_stop_instants_are_unplanned_and_unfired(history: Harness) -> None:
    planned = len([row for row in history.occurrences("job") if row.state == "pending"])
    history.pass_time(minutes=30)  # two minutes of them are grace periods
    assert differences("job", history.now) == [(Kind.UNPLANNED, 28 - planned), *[(Kind.UNFIRED, 1)] * planned]


def test_a_removed_job_owes_instants_until_its_removal_and_after_its_return(harness: Harness) -> None:
    job = Job("job", "* * * * *", recovery="execute_all", overlap="allow")
    job.task(noop)
    harness.sync()
    harness.tick()
    harness.pass_time(minutes=10)  # without a tick
    del registry.jobs["job"]
    assert harness.sync().removed == ("job",)
    harness.pass_time(minutes=10)
    harness.tick()
    assert differences("job", harness.now) == []
    assert Occurrence.objects.filter(job__name="job", scheduled_for__lte=harness.now).count() == 10
    assert [row.reason for row in control.get_job("job").versions.order_by("number")][
        -1
    ] == "no longer declared in code"
    registry.jobs["job"] = job
    harness.sync()
    harness.pass_time(minutes=5)
    harness.tick()
    assert differences("job", harness.now) == []


@pytest.mark.req("OPS-3")
def test_the_command_lists_every_difference_and_fails_on_any(history: Harness) -> None:
    past = history.now  # the command reads the database's clock, which is years later
    out = StringIO()
    call_command("punctual", "ledger", "verify", "--to", past.isoformat(), stdout=out)
    assert out.getvalue().strip() == "2 jobs compared, 0 differences"
    deleted = history.occurrences("job")[2]
    deleted.delete()
    out = StringIO()
    with pytest.raises(SystemExit) as exit_:
        call_command(
            "punctual", "ledger", "verify", "--job", "job", "--to", past.isoformat(), "--json", stdout=out
        )
    assert exit_.value.code == 1
    assert json.loads(out.getvalue()) == [
        {
            "job": "job",
            "kind": "missing",
            "from": deleted.scheduled_for.isoformat(),
            "to": deleted.scheduled_for.isoformat(),
            "count": 1,
            "occurrence": None,
        },
        {"jobs": 1, "differences": 1},
    ]
