"""Files of jobs that are right: round trips, ownership, applying, dry runs."""

import io
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import files, fleet
from jobs import scheduled as scheduled_job
from jobs.definition import Definition
from jobs.entries import entries
from jobs.errors import StaleVersionError
from jobs.models import Job, JobVersion, Origin
from jobs.policy import UpdatePolicy
from jobs.registry import registry
from jobs.store import BATCH, Change, store
from jobs.sync import sync
from occurrences.materialize import plan_due
from occurrences.models import Occurrence
from tests.jobs.fleets import (
    CHANGE,
    LATER,
    NOW,
    RICH,
    a_definition,
    a_fleet,
    applied,
    declared,
    everything,
    exported,
    file,
    refused,
    step,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-3")]

__all__ = ["declared", "file"]  # fixtures


# -- round trip --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", files.FORMATS)
def test_a_fleet_comes_back_byte_for_byte(file: Callable[..., str], format_: str) -> None:
    applied(file(a_fleet(RICH, a_definition("plain"))))
    first = exported("--format", format_)
    Job.objects.all().delete()
    answer = applied(file(first, f"fleet.{format_}"))
    assert answer["new"] == ["nächtlich: ü → 夜", "plain"]
    assert exported("--format", format_) == first


@pytest.mark.parametrize("format_", files.FORMATS)
def test_applying_an_export_changes_nothing(file: Callable[..., str], format_: str) -> None:
    applied(file(a_fleet(RICH, a_definition("plain"))))
    store([Definition.load(a_definition("of the admin"))], Change(Origin.ADMIN, "bob", NOW))
    before = everything()
    answer = applied(file(exported("--format", format_), f"fleet.{format_}"), "--prune")
    assert answer == {
        "new": [],
        "changed": [],
        "preserved": ["nächtlich: ü → 夜", "of the admin", "plain"],
        "removed": [],
    }
    assert everything() == before


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@given(metadata=st.dictionaries(TEXTS, TEXTS, max_size=4))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("format_", files.FORMATS)
def test_any_text_survives_a_file(tmp_path: Path, format_: str, metadata: dict[str, str]) -> None:
    path = tmp_path / f"fleet.{format_}"
    path.write_text(files.written(metadata, format_), encoding="utf-8", newline="\n")
    assert files.read(str(path)) == metadata


def test_an_export_names_its_jobs_in_order_and_can_be_cut_down(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition("b"), a_definition("a"), a_definition("Z"))))
    assert [job["name"] for job in json.loads(exported())["jobs"]] == ["Z", "a", "b"]
    assert [job["name"] for job in json.loads(exported("b", "Z"))["jobs"]] == ["Z", "b"]
    with pytest.raises(CommandError, match="no job is named 'nobody'"):
        exported("a", "nobody")


def test_an_export_to_a_file_takes_its_format_from_the_name(tmp_path: Path, file: Callable[..., str]) -> None:
    applied(file(a_fleet(RICH)))
    path = tmp_path / "out.yml"
    assert exported("--output", str(path)) == f"{path}  1\n"
    assert path.read_text().startswith("jobs:\n- name:")
    with pytest.raises(CommandError, match=r"--output='.*': No such file or directory"):
        exported("--output", str(tmp_path / "nowhere" / "out.json"))
    with pytest.raises(CommandError, match="format='xml': expected one of json, yaml"):
        exported("--format", "xml")


# -- what somebody else owns --------------------------------------------------------------------------


def test_a_job_of_code_is_preserved_while_the_file_says_the_same(file: Callable[..., str]) -> None:
    scheduled_job("@hourly", name="coded")(step)
    sync(NOW)
    text = exported()
    assert json.loads(text)["jobs"][0]["origin"] == "code"
    assert applied(file(text))["preserved"] == ["coded"]


def test_a_job_of_code_that_the_file_would_change_is_refused(file: Callable[..., str]) -> None:
    scheduled_job("@hourly", name="coded")(step)
    sync(NOW)
    text = exported().replace("@hourly", "@daily")
    lines = refused(file(text))
    assert lines[1:] == ["jobs[0]: name='coded': declared in code; change it there"]


def test_a_job_marked_as_code_is_not_made_where_no_code_declares_it(file: Callable[..., str]) -> None:
    (line,) = refused(file(a_fleet(a_definition("coded", origin="code"))))[1:]
    assert line.startswith("jobs[0]: name='coded': is owned by code, which has not made it here")
    assert "jobs[0]: origin='magic': expected one of code, admin" in "\n".join(
        refused(file(a_fleet(a_definition("coded", origin="magic"))))
    )


def test_a_file_takes_over_a_job_of_the_admin_only_to_change_it(file: Callable[..., str]) -> None:
    store([Definition.load(a_definition())], Change(Origin.ADMIN, "bob", NOW))
    applied(file(a_fleet(a_definition())))
    assert (Job.objects.get().origin, Job.objects.get().version) == ("admin", 1)
    applied(file(a_fleet(a_definition(schedule="@daily"))))
    assert (Job.objects.get().origin, Job.objects.get().version) == ("file", 2)


# -- applying ------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-5")
def test_every_change_keeps_who_and_why(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition())), "--author", "ann")
    applied(file(a_fleet(a_definition(schedule="@daily"))), "--author", "bob", "--reason", "too often")
    found = JobVersion.objects.order_by("number").values_list("number", "author", "reason")
    assert list(found) == [(1, "ann", "applied from fleet.json"), (2, "bob", "too often")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--author", "a" * 201), "--author='a+': expected at most 200 printable characters"),
        (("--reason", "r" * 501), "--reason='r+': expected at most 500 printable characters"),
        (("--reason", "a\0b"), "--reason=.*printable"),
        (("--policy", "later"), "policy='later': expected one of immediate, graceful, windowed"),
    ],
)
def test_a_bad_option_is_refused_before_the_file_is_read(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("jobs", "apply", "nowhere.json", *words)


def test_a_job_the_file_says_nothing_about_the_switch_of_keeps_it(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition(enabled=False))))
    assert applied(file(a_fleet(a_definition())))["preserved"] == ["job"]
    assert not Job.objects.get().enabled


def test_pruning_removes_what_files_own_and_nothing_else(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition("old"), a_definition("kept"))))
    store([Definition.load(a_definition("of the admin"))], Change(Origin.ADMIN, "bob", NOW))
    plan_due(NOW)
    only = file(a_fleet(a_definition("kept")))
    assert applied(only)["removed"] == []
    shown = applied(only, "--prune", "--dry-run")["removed"]
    assert [(item["name"], len(item["pending"]["removed"])) for item in shown] == [("old", 0)]
    assert applied(only, "--prune")["removed"] == ["old"]
    assert set(Job.objects.registered().values_list("name", flat=True)) == {"kept", "of the admin"}
    assert applied(file(a_fleet(a_definition("old"))))["changed"] == ["old"]


def test_a_pruned_job_leaves_no_planned_occurrence(file: Callable[..., str]) -> None:
    applied(file(a_fleet(a_definition("old"))))
    now = Job.objects.get().created_at
    plan_due(now)
    assert Occurrence.objects.count() == 1
    shown = applied(file(a_fleet()), "--prune", "--dry-run")["removed"]
    assert len(shown[0]["pending"]["removed"]) == 1
    applied(file(a_fleet()), "--prune")
    assert not Occurrence.objects.exists()


def test_an_instant_relative_to_now_is_stored_as_the_instant(file: Callable[..., str]) -> None:
    read = entries(a_fleet(a_definition(schedule="@once +20m")))
    (item,) = fleet.plan(read.found, now=NOW).new
    assert item.schedule == "@once 2026-01-05T12:20:30Z"


def test_somebody_else_s_edit_between_plan_and_write_stops_everything() -> None:
    store([Definition.load(a_definition())], CHANGE)
    wanted = a_fleet(a_definition(schedule="@daily"), a_definition("another"))
    planned = fleet.plan(entries(wanted).found, now=NOW)
    store([Definition.load(a_definition(schedule="@weekly"))], CHANGE)
    with pytest.raises(StaleVersionError, match="job: version=1: the job is at version 2 now"):
        fleet.apply(planned, CHANGE, progress=lambda _done: None)
    assert list(Job.objects.values_list("schedule", flat=True)) == ["@weekly"]


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs(file: Callable[..., str]) -> None:
    few, more = statements(2, file), statements(60, file)
    assert few == more


@pytest.mark.postgres  # SQLite takes few parameters a statement; there, Django cuts a batch in pieces
def test_a_second_batch_costs_no_more_than_the_first(file: Callable[..., str]) -> None:
    one, two = statements(BATCH, file), statements(2 * BATCH, file)
    assert two < 2 * one


def statements(size: int, file: Callable[..., str]) -> int:
    """How many it takes to apply a fleet of new jobs."""
    path = file(a_fleet(*(a_definition(f"{size} {n}") for n in range(size))))
    with CaptureQueriesContext(connection) as queries:
        applied(path)
    return len(queries)


@pytest.mark.req("JOB-4")
def test_a_function_nobody_registers_is_refused_by_name_and_nothing_is_written(
    file: Callable[..., str],
) -> None:
    strange = [{"name": "step", "function": "app.typo"}]
    lines = refused(file(a_fleet(a_definition("a"), a_definition("b", tasks=strange))))
    assert lines[1:] == [
        "b/step: function='app.typo': no code registers it; registered are app.load, app.step"
    ]
    assert not Job.objects.exists()


@pytest.mark.req("JOB-4")
def test_a_stored_job_whose_code_is_gone_may_stay_as_it_is(file: Callable[..., str]) -> None:
    path = file(a_fleet(a_definition("a")))
    applied(path)
    registry.functions.clear()
    assert applied(path)["preserved"] == ["a"]


# -- dry run -------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-6")
def test_a_dry_run_shows_everything_and_writes_nothing(file: Callable[..., str]) -> None:
    store([Definition.load(a_definition(name)) for name in ("changing", "staying")], CHANGE)
    plan_due(NOW)
    before = everything(), list(Occurrence.objects.values())
    wanted = file(
        a_fleet(a_definition("changing", "30 * * * *"), a_definition("staying"), a_definition("new"))
    )
    out = io.StringIO()
    call_command("jobs", "apply", wanted, "--dry-run", stdout=out)
    text = out.getvalue()
    assert text.startswith('new  new\nchanged  changing\n   schedule: "@hourly" → "30 * * * *"\n')
    assert "   pending added: 20" in text
    assert text.endswith("1 new, 1 changed, 1 preserved, 0 removed (dry run: nothing was written)\n")
    assert (everything(), list(Occurrence.objects.values())) == before


@pytest.mark.req("JOB-6")
@pytest.mark.parametrize("policy", ["immediate", "graceful", "windowed"])
def test_a_dry_run_s_diff_is_what_applying_then_does(policy: str) -> None:
    store([Definition.load(a_definition(schedule="*/15 * * * *"))], CHANGE)
    plan_due(NOW)
    wanted = a_fleet(a_definition(schedule="*/20 * * * *"))
    planned = fleet.plan(entries(wanted).found, now=LATER)
    kind = UpdatePolicy.named(policy)
    (diff,) = fleet.previews(planned, policy=kind, now=LATER)
    before = pending_instants()
    change = Change(Origin.FILE, "ann", LATER, policy=kind)
    fleet.apply(planned, change, progress=lambda _done: None)
    after = pending_instants()
    assert (set(diff.added), set(diff.removed)) == (after - before, before - after)
    assert set(diff.kept) == before & after
    assert after


def pending_instants() -> set[datetime]:
    return set(Occurrence.objects.filter(state="pending").values_list("scheduled_for", flat=True))
