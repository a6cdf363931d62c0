"""`recover` and `reap` do by hand what every tick does by itself, with the database's clock."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from jobs import Context, Job
from occurrences.models import Attempt, Occurrence, TaskRun
from tests.harness import Harness, at_the_hour

pytestmark = pytest.mark.req("OPS-3")


def noop(ctx: Context) -> None: ...


def answer(command: str, *words: str) -> dict[str, int]:
    out = StringIO()
    call_command(command, *words, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.req("REC-1")
def test_recover_plans_what_was_missed_and_applies_the_strategy_once(harness: Harness) -> None:
    Job("job", "* * * * *", recovery="mark_as_missed").task(noop)
    harness.sync()
    harness.tick()
    assert answer("recover", "--dry-run") == {"jobs_to_plan": 1, "late": 1}
    assert Occurrence.objects.count() == 1, "only counted"
    first = answer("recover")  # months have passed since, by the database's clock
    assert first["in_ranges"] > 100_000
    missed = sum(Occurrence.objects.filter(state="missed").values_list("instants", flat=True))
    minutes = (timezone.now() - harness.now).total_seconds() // 60
    assert abs(missed - minutes) <= 5
    assert Occurrence.objects.count() < 20
    assert answer("recover") == {"planned": 0, "in_ranges": 0, "jobs": 0, "recovered": 0, "missed": 0}


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


@pytest.mark.req("REC-5")
@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["backfill", "job", "--from", "2026-01-04", "--to", "2026-01-05"], "filling in"),
        (["occurrences", "replay", "--job", "job", "--state", "completed"], "replayed"),
        (["occurrences", "skip", "--job", "job"], "skipped"),
        (["prune", "--job", "job"], "job"),
        (["dlq", "purge", "--all"], "purged"),
    ],
)
def test_whoever_waits_at_a_terminal_sees_how_far_it_is(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, words: list[str], label: str
) -> None:
    Job("job", "0 * * * *", retention="1h").task(noop)
    at_the_hour(harness)
    harness.work()
    if words[0] == "dlq":
        TaskRun.objects.update(state="dlq")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    call_command(*words, stdout=StringIO())
    assert f"\r{label} [##" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_a_mistake_exits_with_a_code_and_names_what_is_allowed(harness: Harness) -> None:
    Job("job", "0 * * * *").task(noop)
    harness.sync()
    for words, told in (
        (["backfill", "job", "--from", "2026-01-05", "--to", "2026-01-04"], "up to the end of the range"),
        (
            ["backfill", "job", "--from", "2999-01-01", "--to", "2999-01-02"],
            "expected an instant in the past",
        ),
        (["backfill", "nobody", "--from", "2026-01-01", "--to", "2026-01-02"], "no job is named"),
        (["dlq", "list", "-n", "0"], "expected 1 to"),
        (["prune", "--job", "nobody"], "no job is named"),
    ):
        with pytest.raises(CommandError, match=told) as raised:
            call_command(*words, stdout=StringIO())
        assert raised.value.returncode == 1
