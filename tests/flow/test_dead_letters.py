"""Dead letters are found, grouped, replayed with a fresh key or purged; each once, each with an entry."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs import Context, Job, Retry
from occurrences.models import Occurrence, TaskRun
from recovery.audit import Asked
from recovery.deadletters import Wanted, dead, grouped, purge_dead, replay_dead
from recovery.models import Audit
from tests.harness import Harness, at_the_hour

pytestmark = pytest.mark.req("TSK-6")

BY = Asked("ada", "mended")
keys: list[str] = []


def fine(ctx: Context) -> None: ...


class Broken:
    mended = False


def deaths(harness: Harness) -> None:
    """Six dead letters of two jobs, with two kinds of error."""
    Broken.mended = False
    keys.clear()

    def divide(ctx: Context) -> None:
        keys.append(ctx.idempotency_key)
        if not Broken.mended:
            raise ZeroDivisionError("division by zero")

    def connect(ctx: Context) -> None:
        if not Broken.mended:
            raise ConnectionError("no route to host")

    config: dict[str, Any] = {"retry": Retry(0, "1s"), "failure_strategy": "continue", "mode": "parallel"}
    for name in ("alpha", "beta"):
        job = Job(name, "0 * * * *", overlap="allow", **config)
        job.task(name="divide")(divide)
        job.task(name="connect")(connect)
        job.task(name="fine")(fine)
    Job("gamma", "0 * * * *", **config).task(name="divide")(divide)
    Job("delta", "0 * * * *", **config).task(name="divide")(divide)
    at_the_hour(harness)
    harness.work()
    assert dead(Wanted()).count() == 6


def test_they_are_found_by_job_task_text_and_age(harness: Harness) -> None:
    deaths(harness)
    assert dead(Wanted(job="alpha")).count() == 2
    assert dead(Wanted(task="divide")).count() == 4
    assert dead(Wanted(search="NO ROUTE")).count() == 2
    assert dead(Wanted(before=harness.now)).count() == 0
    assert dead(Wanted(before=harness.now + timedelta(seconds=1))).count() == 6


def test_they_are_grouped_by_their_error(harness: Harness) -> None:
    deaths(harness)
    found = {(group.job, group.task, group.count) for group in grouped()}
    assert found == {
        ("alpha", "divide", 1),
        ("alpha", "connect", 1),
        ("beta", "divide", 1),
        ("beta", "connect", 1),
        ("gamma", "divide", 1),
        ("delta", "divide", 1),
    }
    (group,) = grouped(Wanted(job="gamma"))
    assert "division by zero" in group.error
    assert group.first == group.last


def test_a_replayed_one_runs_again_alone_with_a_fresh_key_and_is_dealt_with(harness: Harness) -> None:
    deaths(harness)
    Broken.mended = True
    (run,) = dead(Wanted(job="alpha", task="divide"))
    old = list(keys)
    assert replay_dead(Wanted(ids=(run.id,)), asked=BY, now=harness.now).count == 1
    harness.tick()
    harness.work()
    again = Occurrence.objects.get(cause="replay")
    assert (again.parent_id, again.state, again.requested_by) == (run.occurrence_id, "completed", "ada")
    assert [item.task.name for item in again.runs.all()] == ["divide"]
    assert len(keys) == len(old) + 1
    assert keys[-1] not in old
    run.refresh_from_db()
    assert (run.state, run.resolution, run.resolved_at) == ("dlq", "replayed", harness.now)
    assert replay_dead(Wanted(ids=(run.id,)), asked=BY, now=harness.now).count == 0, "once only"
    assert list(Audit.objects.values_list("action", "count", "requested_by", "reason")) == [
        ("dlq_replay", 1, "ada", "mended")
    ]


def test_everything_that_matches_is_replayed_and_the_rest_is_left_alone(harness: Harness) -> None:
    deaths(harness)
    Broken.mended = True
    assert replay_dead(Wanted(search="division"), asked=BY, now=harness.now).count == 4
    harness.tick()
    harness.work()
    assert dead(Wanted()).count() == 2
    assert set(Occurrence.objects.filter(cause="replay").values_list("state", flat=True)) == {"completed"}


def test_purging_takes_them_off_the_list_and_keeps_them_in_the_ledger(harness: Harness) -> None:
    deaths(harness)
    later = harness.now + timedelta(days=40)
    old = Wanted(before=later - timedelta(days=30))
    assert purge_dead(old, asked=BY, now=later).count == 6
    assert purge_dead(old, asked=BY, now=later).count == 0
    assert dead(Wanted()).count() == 0
    assert TaskRun.objects.filter(state="dlq", resolution="purged").count() == 6
    assert list(Audit.objects.values_list("action", "count")) == [("dlq_purge", 6)]


def test_statements_do_not_grow_with_the_number_of_dead_letters(
    harness: Harness, django_assert_max_num_queries: Any
) -> None:
    deaths(harness)
    with django_assert_max_num_queries(14):
        replay_dead(Wanted(), asked=BY, now=harness.now)


@pytest.mark.req("OPS-3")
def test_the_command_lists_shows_replays_and_purges(harness: Harness) -> None:
    deaths(harness)
    rows = json.loads(output("list", "--job", "alpha", "--json"))
    assert {row["task"] for row in rows} == {"divide", "connect"}
    assert len(json.loads(output("list", "--groups", "--json"))) == 6
    assert "division by zero" in output("show", next(row["id"] for row in rows if row["task"] == "divide"))
    assert "would be replayed  2" in output("replay", "--job", "alpha", "--dry-run")
    assert dead(Wanted()).count() == 6
    assert "replayed  2" in output("replay", "--job", "alpha", "--reason", "mended")
    assert "purged  4" in output("purge", "--all")
    with pytest.raises(CommandError, match="expected ids, a filter such as --job, or --all"):
        output("purge")
    with pytest.raises(CommandError, match="older-than"):
        output("purge", "--older-than", "soon")


@pytest.mark.req("OPS-3")
@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--task", "connect"], 2),
        (["--search", "no ROUTE", "--job", "alpha"], 1),
        (["--older-than", "1d"], 6),  # the database's clock is months ahead of the harness
        (["--older-than", "366d"], 0),
    ],
)
def test_the_command_takes_what_matches_and_nothing_else(
    harness: Harness, words: list[str], count: int
) -> None:
    deaths(harness)
    assert f"would be purged  {count}" in output("purge", *words, "--dry-run")
    assert f"purged  {count}" in output("purge", *words, "--reason", "mended", "--by", "eve")
    assert dead(Wanted()).count() == 6 - count
    assert sum(Audit.objects.filter(requested_by="eve").values_list("count", flat=True)) == count


@pytest.mark.req("OPS-3")
def test_an_error_is_dealt_with_by_its_fingerprint_and_one_by_its_id(harness: Harness) -> None:
    deaths(harness)
    (group,) = grouped(Wanted(job="gamma"))
    same = dead(Wanted(fingerprint=group.fingerprint)).count()
    assert 1 <= same < 6
    assert f"replayed  {same}" in output("replay", "--fingerprint", group.fingerprint)
    one = dead(Wanted())[0]
    assert "purged  1" in output("purge", one.shown_id)
    assert dead(Wanted()).count() == 5 - same


def output(*words: str) -> str:
    out = StringIO()
    call_command("dlq", *words, stdout=out)
    return out.getvalue()
