"""Dead letters are found, grouped, and replayed or purged, each only once and with an audit entry."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from punctual import Context, Job, Retry
from punctual.occurrences.models import Occurrence, TaskRun
from punctual.operations.dead_letter_actions import purge_dead_letters, replay_dead_letters
from punctual.operations.models import Audit
from punctual.recovery.dead_letters import DeadLetterFilter, find_dead_letters, group_by_error
from punctual.recovery.requester import Requester
from tests.harness import Harness, at_the_hour

pytestmark = pytest.mark.req("TSK-6")

BY = Requester("ada", "fixed")
keys: list[str] = []


def fine(ctx: Context) -> None: ...


class Errors:
    """Whether the tasks still fail."""

    fixed = False


def create_dead_letters(harness: Harness) -> None:
    """Six dead letters of two jobs, with two kinds of error."""
    Errors.fixed = False
    keys.clear()

    def divide(ctx: Context) -> None:
        keys.append(ctx.idempotency_key)
        if not Errors.fixed:
            raise ZeroDivisionError("division by zero")

    def connect(ctx: Context) -> None:
        if not Errors.fixed:
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
    assert find_dead_letters(DeadLetterFilter()).count() == 6


def test_dead_letters_are_found_by_job_task_text_and_age(harness: Harness) -> None:
    create_dead_letters(harness)
    assert find_dead_letters(DeadLetterFilter(job="alpha")).count() == 2
    assert find_dead_letters(DeadLetterFilter(task="divide")).count() == 4
    assert find_dead_letters(DeadLetterFilter(search="NO ROUTE")).count() == 2
    assert find_dead_letters(DeadLetterFilter(before=harness.now)).count() == 0
    assert find_dead_letters(DeadLetterFilter(before=harness.now + timedelta(seconds=1))).count() == 6


def test_dead_letters_are_grouped_by_error(harness: Harness) -> None:
    create_dead_letters(harness)
    groups = {(group.job, group.task, group.count) for group in group_by_error()}
    assert groups == {
        ("alpha", "divide", 1),
        ("alpha", "connect", 1),
        ("beta", "divide", 1),
        ("beta", "connect", 1),
        ("gamma", "divide", 1),
        ("delta", "divide", 1),
    }
    (group,) = group_by_error(DeadLetterFilter(job="gamma"))
    assert "division by zero" in group.error
    assert group.first == group.last


def test_a_replay_runs_the_one_task_with_a_new_key_and_resolves_the_dead_letter(harness: Harness) -> None:
    create_dead_letters(harness)
    Errors.fixed = True
    (run,) = find_dead_letters(DeadLetterFilter(job="alpha", task="divide"))
    old = list(keys)
    assert replay_dead_letters(DeadLetterFilter(ids=(run.id,)), requester=BY, now=harness.now).count == 1
    harness.tick()
    harness.work()
    again = Occurrence.objects.get(cause="replay")
    assert (again.parent_id, again.state, again.requested_by) == (run.occurrence_id, "completed", "ada")
    assert [item.task.name for item in again.runs.all()] == ["divide"]
    assert len(keys) == len(old) + 1
    assert keys[-1] not in old
    run.refresh_from_db()
    assert (run.state, run.resolution, run.resolved_at) == ("dlq", "replayed", harness.now)
    assert replay_dead_letters(DeadLetterFilter(ids=(run.id,)), requester=BY, now=harness.now).count == 0, (
        "only once"
    )
    assert list(Audit.objects.values_list("action", "count", "requested_by", "reason")) == [
        ("dlq_replay", 1, "ada", "fixed")
    ]


def test_only_dead_letters_that_match_the_filter_are_replayed(harness: Harness) -> None:
    create_dead_letters(harness)
    Errors.fixed = True
    assert replay_dead_letters(DeadLetterFilter(search="division"), requester=BY, now=harness.now).count == 4
    harness.tick()
    harness.work()
    assert find_dead_letters(DeadLetterFilter()).count() == 2
    assert set(Occurrence.objects.filter(cause="replay").values_list("state", flat=True)) == {"completed"}


def test_purged_dead_letters_leave_the_list_and_stay_in_the_ledger(harness: Harness) -> None:
    create_dead_letters(harness)
    later = harness.now + timedelta(days=40)
    old = DeadLetterFilter(before=later - timedelta(days=30))
    assert purge_dead_letters(old, requester=BY, now=later).count == 6
    assert purge_dead_letters(old, requester=BY, now=later).count == 0
    assert find_dead_letters(DeadLetterFilter()).count() == 0
    assert TaskRun.objects.filter(state="dlq", resolution="purged").count() == 6
    assert list(Audit.objects.values_list("action", "count")) == [("dlq_purge", 6)]


def test_statements_do_not_grow_with_the_number_of_dead_letters(
    harness: Harness, django_assert_max_num_queries: Any
) -> None:
    create_dead_letters(harness)
    with django_assert_max_num_queries(18):
        replay_dead_letters(DeadLetterFilter(), requester=BY, now=harness.now)


@pytest.mark.req("OPS-3")
def test_the_command_lists_shows_replays_and_purges(harness: Harness) -> None:
    create_dead_letters(harness)
    rows = json.loads(output("list", "--job", "alpha", "--json"))
    assert {row["task"] for row in rows} == {"divide", "connect"}
    assert len(json.loads(output("list", "--groups", "--json"))) == 6
    assert "division by zero" in output("show", next(row["id"] for row in rows if row["task"] == "divide"))
    assert "would be replayed  2" in output("replay", "--job", "alpha", "--dry-run")
    assert find_dead_letters(DeadLetterFilter()).count() == 6
    assert "replayed  2" in output("replay", "--job", "alpha", "--reason", "fixed")
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
def test_the_command_purges_only_what_matches(harness: Harness, words: list[str], count: int) -> None:
    create_dead_letters(harness)
    assert f"would be purged  {count}" in output("purge", *words, "--dry-run")
    assert f"purged  {count}" in output("purge", *words, "--reason", "fixed", "--by", "eve")
    assert find_dead_letters(DeadLetterFilter()).count() == 6 - count
    assert sum(Audit.objects.filter(requested_by="eve").values_list("count", flat=True)) == count


@pytest.mark.req("OPS-3")
def test_the_command_selects_by_fingerprint_and_by_id(harness: Harness) -> None:
    create_dead_letters(harness)
    (group,) = group_by_error(DeadLetterFilter(job="gamma"))
    same = find_dead_letters(DeadLetterFilter(fingerprint=group.fingerprint)).count()
    assert 1 <= same < 6
    assert f"replayed  {same}" in output("replay", "--fingerprint", group.fingerprint)
    one = find_dead_letters(DeadLetterFilter())[0]
    assert "purged  1" in output("purge", one.display_id)
    assert find_dead_letters(DeadLetterFilter()).count() == 5 - same


def output(*words: str) -> str:
    out = StringIO()
    call_command("punctual", "dlq", *words, stdout=out)
    return out.getvalue()
