"""`recover`, `reap`, `resend`, `settle` run the steps of the sweeper on request, by the database's clock."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from punctual import Context, Job
from punctual.commands.catalog import all_verbs
from punctual.execution.models import HookCall
from punctual.occurrences.admission.firing import fire_due
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.operations.models import Audit
from tests.execution.conftest import broker_down
from tests.harness import Harness, at_the_hour, hook_into

pytestmark = pytest.mark.req("OPS-3")


def noop(ctx: Context) -> None: ...


def answer(command: str, *words: str) -> dict[str, int]:
    out = StringIO()
    call_command("punctual", command, *words, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.req("REC-1")
def test_recover_plans_what_was_missed_and_applies_the_strategy_once(harness: Harness) -> None:
    Job("job", "* * * * *", recovery="mark_as_missed").task(noop)
    harness.sync()
    harness.tick()
    assert answer("recover", "--dry-run") == {"jobs": 1, "to_plan": 1, "late": 1}
    assert Occurrence.objects.count() == 1, "only counted"
    first = answer("recover")  # months have passed since, by the database's clock
    assert first["in_ranges"] > 100_000
    missed = sum(Occurrence.objects.filter(state="missed").values_list("instants", flat=True))
    minutes = (timezone.now() - harness.now).total_seconds() // 60
    assert abs(missed - minutes) <= 5
    assert Occurrence.objects.count() < 20
    again = answer("recover")
    assert max(again.values()) <= 1, "nothing but the minute that may have passed since"
    assert set(again) == {"planned", "in_ranges", "recovered", "missed", "skipped"}


@pytest.mark.req("REC-3")
def test_reap_records_a_lost_attempt_once_and_keeps_the_evidence(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    at_the_hour(harness)
    harness.crash_worker()
    held = TaskRun.objects.get()
    assert answer("reap", "--dry-run")["lost"] == 1
    assert not Attempt.objects.filter(state="lost").exists(), "only counted"
    assert answer("reap")["lost"] == 1
    assert answer("reap")["lost"] == 0
    (lost,) = Attempt.objects.all()
    assert (lost.state, lost.worker, lost.error_type) == ("lost", "doomed/1", "WorkerLost")
    assert (lost.lease_until, lost.heartbeat_at) == (held.lease_until, held.heartbeat_at)


@pytest.mark.req("REC-1")
def test_recover_of_one_job_leaves_the_others_as_they_are(harness: Harness) -> None:
    for name in ("first", "second"):
        Job(name, "0 0 1 * *", recovery="mark_as_missed").task(noop)
    harness.sync()
    harness.tick()
    words = ("--job", "first", "--reason", "the beats were off", "--by", "ada")
    assert answer("recover", *words)["missed"] >= 1
    assert "missed" in harness.states("first")
    assert set(harness.states("second")) == {"pending"}
    entry = Audit.objects.get()
    assert (entry.action, entry.requested_by, entry.reason) == ("recover", "ada", "the beats were off")
    assert (entry.details["job"], entry.count, entry.finished) == (
        "first",
        len(harness.finished("first")),
        True,
    )


def fired_and_unsent(harness: Harness) -> None:
    """The beat died between its commit and its messages."""
    harness.start_at(harness.now.replace(minute=59, second=59))
    harness.tick()
    fire_due(harness.pass_time(seconds=1))


@pytest.mark.req("OCC-7")
def test_resend_sends_what_was_never_confirmed_once(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    fired_and_unsent(harness)
    assert answer("resend", "--dry-run") == {"unconfirmed": 1, "lost": 0}
    assert harness.lose_messages() == 0, "only counted"
    assert answer("resend", "--reason", "an empty broker") == {"resent": 1, "failed": 0}
    assert answer("resend") == {"resent": 0, "failed": 0}
    assert harness.work() == 1
    assert list(Audit.objects.values_list("action", "count", "reason")) == [("resend", 1, "an empty broker")]


@pytest.mark.req("REC-3")
def test_settle_calls_the_hooks_that_a_dead_worker_did_not_call(harness: Harness) -> None:
    called: list[object] = []
    job = Job("job", "0 * * * *")
    job.task(noop)
    job.on_complete(hook_into(called))
    at_the_hour(harness)
    harness.work()
    Occurrence.objects.filter(state="completed").update(finalized_at=None)
    HookCall.objects.all().delete()
    assert answer("settle", "--dry-run") == {"unsettled": 0, "hooks": 1}
    assert answer("settle", "--reason", "workers were killed") == {"asked": 1, "failed": 0}
    assert answer("settle") == {"asked": 0, "failed": 0}, "asked, and not yet answered"
    harness.work()
    assert len(called) == 2
    assert Audit.objects.get().reason == "workers were killed"


@pytest.mark.req("REC-3")
def test_the_hooks_of_what_a_reap_ends_are_called_at_once(harness: Harness) -> None:
    called: list[object] = []
    job = Job("job", "0 * * * *", execution_timeout="10s")
    job.task(noop)
    job.on_complete(hook_into(called))
    at_the_hour(harness)
    harness.crash_worker()
    TaskRun.objects.update(lease_until=timezone.now() + timedelta(hours=1))
    assert answer("reap")["stale"] == 1
    harness.work()
    assert len(called) == 1


@pytest.mark.req("OCC-7")
@pytest.mark.parametrize("command", ["resend", "settle"])
def test_a_refusing_broker_sets_the_exit_code(harness: Harness, command: str) -> None:
    Job("job", "0 * * * *").task(noop)
    fired_and_unsent(harness)
    if command == "settle":
        TaskRun.objects.update(state="success", finished_at=harness.now)
    out = StringIO()
    with broker_down(), pytest.raises(SystemExit, match="1"):
        call_command("punctual", command, stdout=out)
    assert "failed=1" in out.getvalue()
    assert "messages the broker refused: 1" in out.getvalue()
    assert not Audit.objects.exists()


ACTING = (
    *("backfill", "prune", "recover", "reap", "resend", "settle"),
    *("occurrences cancel", "occurrences skip", "occurrences replay"),
    *("dlq replay", "dlq purge"),
)


@pytest.mark.parametrize("name", ACTING)
def test_every_acting_command_takes_a_reason_and_can_be_tried_dry(name: str) -> None:
    parser = ArgumentParser()
    all_verbs()[name].arguments(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    assert {"--reason", "--by", "--dry-run"} <= options


@pytest.mark.req("REC-5")
@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["recover"], "catching up"),
        (["reap"], "taking back"),
        (["resend"], "sending"),
        (["settle"], "asking"),
        (["backfill", "job", "--from", "2026-01-04", "--to", "2026-01-05"], "filling in"),
        (["occurrences", "replay", "--job", "job", "--state", "completed"], "replayed"),
        (["occurrences", "skip", "--job", "job"], "skipped"),
        (["prune", "--job", "job"], "job"),
        (["dlq", "purge", "--all"], "purged"),
    ],
)
def test_a_terminal_shows_a_progress_bar(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, words: list[str], label: str
) -> None:
    Job("job", "0 * * * *", retention="1h").task(noop)
    at_the_hour(harness)
    harness.work()
    if words[0] == "dlq":
        TaskRun.objects.update(state="dlq")
    if words[0] in ("reap", "resend"):
        TaskRun.objects.update(state="scheduled", finished_at=None, dispatched_at=None)
    if words[0] == "settle":
        Occurrence.objects.filter(state="completed").update(finalized_at=None)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    call_command("punctual", *words, stdout=StringIO())
    assert f"\r{label} [##" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_a_wrong_option_exits_with_1_and_names_what_is_allowed(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    harness.sync()
    for words, told in (
        (["backfill", "job", "--from", "2026-01-05", "--to", "2026-01-04"], "up to the end of the range"),
        (
            ["backfill", "job", "--from", "2999-01-01", "--to", "2999-01-02"],
            "expected an instant in the past",
        ),
        (["backfill", "unknown", "--from", "2026-01-01", "--to", "2026-01-02"], "no job is named"),
        (["dlq", "list", "-n", "0"], "expected 1 to"),
        (["prune", "--job", "unknown"], "no job is named"),
        (["recover", "--job", "unknown"], "no job is named"),
    ):
        with pytest.raises(CommandError, match=told) as raised:
            call_command("punctual", *words, stdout=StringIO())
        assert raised.value.returncode == 1
