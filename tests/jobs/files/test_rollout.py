"""Valid files of jobs: round trips, ownership, apply, prune, dry runs."""

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

from punctual import scheduled as scheduled_job
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.registry import registry
from punctual.jobs.declaration.sync import sync
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import StaleVersionError
from punctual.jobs.files import rollout, syntax
from punctual.jobs.files.entries import read_entries
from punctual.jobs.models import Job, JobVersion, Origin
from punctual.jobs.store.definitions import Change, store
from punctual.jobs.store.rows import BATCH
from punctual.jobs.store.update_policy import UpdatePolicy
from punctual.occurrences.models import Occurrence
from punctual.occurrences.planning.materialize import plan_due
from punctual.recovery.verification.verify import verify
from tests.jobs.files.factories import (
    CHANGE,
    LATER,
    NOW,
    RICH,
    a_definition,
    a_fleet,
    all_rows,
    apply_file,
    declared,
    export_text,
    refusal_lines,
    step,
    write_file,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("JOB-3")]

__all__ = ["declared", "write_file"]  # fixtures


# -- round trip --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", syntax.FORMATS)
def test_an_exported_fleet_can_be_applied_and_exports_the_same_bytes(
    write_file: Callable[..., str], format_: str
) -> None:
    apply_file(write_file(a_fleet(RICH, a_definition("plain"))))
    first = export_text("--format", format_)
    Job.objects.all().delete()
    answer = apply_file(write_file(first, f"fleet.{format_}"))
    assert answer["new"] == ["nächtlich: ü → 夜", "plain"]
    assert export_text("--format", format_) == first


@pytest.mark.parametrize("format_", syntax.FORMATS)
def test_applying_an_export_changes_nothing(write_file: Callable[..., str], format_: str) -> None:
    apply_file(write_file(a_fleet(RICH, a_definition("plain"))))
    store([Definition.load(a_definition("of the admin"))], Change(Origin.ADMIN, "bob", NOW))
    before = all_rows()
    answer = apply_file(write_file(export_text("--format", format_), f"fleet.{format_}"), "--prune")
    assert answer == {
        "new": [],
        "changed": [],
        "preserved": ["nächtlich: ü → 夜", "of the admin", "plain"],
        "removed": [],
    }
    assert all_rows() == before


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@given(metadata=st.dictionaries(TEXTS, TEXTS, max_size=4))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("format_", syntax.FORMATS)
def test_any_text_survives_a_file(tmp_path: Path, format_: str, metadata: dict[str, str]) -> None:
    path = tmp_path / f"fleet.{format_}"
    path.write_text(syntax.format_document(metadata, format_), encoding="utf-8", newline="\n")
    assert syntax.read_document(str(path)) == metadata


def test_an_export_is_sorted_and_can_be_limited_to_names(write_file: Callable[..., str]) -> None:
    apply_file(write_file(a_fleet(a_definition("b"), a_definition("a"), a_definition("Z"))))
    assert [job["name"] for job in json.loads(export_text())["jobs"]] == ["Z", "a", "b"]
    assert [job["name"] for job in json.loads(export_text("b", "Z"))["jobs"]] == ["Z", "b"]
    with pytest.raises(CommandError, match="no job is named 'unknown'"):
        export_text("a", "unknown")


def test_an_export_to_a_file_takes_its_format_from_the_name(
    tmp_path: Path, write_file: Callable[..., str]
) -> None:
    apply_file(write_file(a_fleet(RICH)))
    path = tmp_path / "out.yml"
    assert export_text("--output", str(path)) == f"{path}  1\n"
    assert path.read_text().startswith("jobs:\n- name:")
    with pytest.raises(CommandError, match=r"--output='.*': No such file or directory"):
        export_text("--output", str(tmp_path / "nowhere" / "out.json"))
    with pytest.raises(CommandError, match="format='xml': expected one of json, yaml"):
        export_text("--format", "xml")


# -- jobs of other origins ----------------------------------------------------------------------------


def test_a_job_of_code_is_preserved_if_the_file_agrees(write_file: Callable[..., str]) -> None:
    scheduled_job("@hourly", name="coded")(step)
    sync(NOW)
    text = export_text()
    assert json.loads(text)["jobs"][0]["origin"] == "code"
    assert apply_file(write_file(text))["preserved"] == ["coded"]


def test_a_job_of_code_that_the_file_would_change_is_refused(write_file: Callable[..., str]) -> None:
    scheduled_job("@hourly", name="coded")(step)
    sync(NOW)
    text = export_text().replace("@hourly", "@daily")
    lines = refusal_lines(write_file(text))
    assert lines[1:] == ["jobs[0]: name='coded': declared in code; change it there"]


def test_a_job_marked_as_code_is_not_created_without_its_code(write_file: Callable[..., str]) -> None:
    (line,) = refusal_lines(write_file(a_fleet(a_definition("coded", origin="code"))))[1:]
    assert line.startswith("jobs[0]: name='coded': is owned by code, which has not made it here")
    assert "jobs[0]: origin='magic': expected one of code, admin" in "\n".join(
        refusal_lines(write_file(a_fleet(a_definition("coded", origin="magic"))))
    )


def test_a_file_takes_over_a_job_of_the_admin_only_to_change_it(write_file: Callable[..., str]) -> None:
    store([Definition.load(a_definition())], Change(Origin.ADMIN, "bob", NOW))
    apply_file(write_file(a_fleet(a_definition())))
    assert (Job.objects.get().origin, Job.objects.get().version) == ("admin", 1)
    apply_file(write_file(a_fleet(a_definition(schedule="@daily"))))
    assert (Job.objects.get().origin, Job.objects.get().version) == ("file", 2)


# -- applying ------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-5")
def test_every_change_records_author_and_reason(write_file: Callable[..., str]) -> None:
    apply_file(write_file(a_fleet(a_definition())), "--author", "ann")
    apply_file(
        write_file(a_fleet(a_definition(schedule="@daily"))), "--author", "bob", "--reason", "too often"
    )
    versions = JobVersion.objects.order_by("number").values_list("number", "author", "reason")
    assert list(versions) == [(1, "ann", "applied from fleet.json"), (2, "bob", "too often")]


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
        call_command("punctual", "jobs", "apply", "nowhere.json", *words)


def test_a_file_without_enabled_keeps_the_operator_s_choice(write_file: Callable[..., str]) -> None:
    apply_file(write_file(a_fleet(a_definition(enabled=False))))
    assert apply_file(write_file(a_fleet(a_definition())))["preserved"] == ["job"]
    assert not Job.objects.get().enabled


def test_pruning_removes_only_jobs_of_files(write_file: Callable[..., str]) -> None:
    apply_file(write_file(a_fleet(a_definition("old"), a_definition("kept"))))
    store([Definition.load(a_definition("of the admin"))], Change(Origin.ADMIN, "bob", NOW))
    plan_due(NOW)
    only = write_file(a_fleet(a_definition("kept")))
    assert apply_file(only)["removed"] == []
    shown = apply_file(only, "--prune", "--dry-run")["removed"]
    assert [(item["name"], len(item["pending"]["removed"])) for item in shown] == [("old", 0)]
    assert apply_file(only, "--prune")["removed"] == ["old"]
    assert set(Job.objects.registered().values_list("name", flat=True)) == {"kept", "of the admin"}
    assert apply_file(write_file(a_fleet(a_definition("old"))))["changed"] == ["old"]


def test_a_pruned_job_has_no_planned_occurrence(write_file: Callable[..., str]) -> None:
    apply_file(write_file(a_fleet(a_definition("old"))))
    now = Job.objects.get().created_at
    plan_due(now)
    assert Occurrence.objects.count() == 1
    shown = apply_file(write_file(a_fleet()), "--prune", "--dry-run")["removed"]
    assert len(shown[0]["pending"]["removed"]) == 1
    apply_file(write_file(a_fleet()), "--prune")
    assert not Occurrence.objects.exists()


def test_a_pruned_job_gets_a_version_and_owes_nothing_until_it_returns(
    write_file: Callable[..., str],
) -> None:
    apply_file(write_file(a_fleet(a_definition("old"))))
    apply_file(write_file(a_fleet()), "--prune", "--author", "ann", "--reason", "not needed")
    job = Job.objects.get()
    removal = job.versions.get(number=2)
    assert (job.version, removal.created_at) == (2, job.removed_at)
    assert (removal.author, removal.reason, removal.after["enabled"]) == ("ann", "not needed", False)
    assert list(verify(job, now=database_now())) == []
    apply_file(write_file(a_fleet(a_definition("old"))))
    returned = job.versions.get(number=3)
    assert returned.before == removal.after
    assert (returned.after["enabled"], Job.objects.get().removed_at) == (True, None)


def test_a_relative_once_is_stored_as_an_instant(write_file: Callable[..., str]) -> None:
    read = read_entries(a_fleet(a_definition(schedule="@once +20m")))
    (item,) = rollout.plan(read.entries, now=NOW).new
    assert item.schedule == "@once 2026-01-05T12:20:30Z"


def test_an_edit_between_plan_and_write_stops_everything() -> None:
    store([Definition.load(a_definition())], CHANGE)
    wanted = a_fleet(a_definition(schedule="@daily"), a_definition("another"))
    planned = rollout.plan(read_entries(wanted).entries, now=NOW)
    store([Definition.load(a_definition(schedule="@weekly"))], CHANGE)
    with pytest.raises(StaleVersionError, match="job: version=1: the job is at version 2 now"):
        rollout.apply(planned, CHANGE, progress=lambda _done: None)
    assert list(Job.objects.values_list("schedule", flat=True)) == ["@weekly"]


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs(
    write_file: Callable[..., str],
) -> None:
    few, more = statements(2, write_file), statements(60, write_file)
    assert few == more


@pytest.mark.postgres  # SQLite takes few parameters a statement; there, Django cuts a batch in pieces
def test_a_second_batch_costs_no_more_than_the_first(write_file: Callable[..., str]) -> None:
    one, two = statements(BATCH, write_file), statements(2 * BATCH, write_file)
    assert two < 2 * one


def statements(size: int, write_file: Callable[..., str]) -> int:
    """Count the statements that apply a fleet of new jobs."""
    path = write_file(a_fleet(*(a_definition(f"{size} {n}") for n in range(size))))
    with CaptureQueriesContext(connection) as queries:
        apply_file(path)
    return len(queries)


@pytest.mark.req("JOB-4")
def test_an_unregistered_function_is_refused_by_name_and_nothing_is_written(
    write_file: Callable[..., str],
) -> None:
    strange = [{"name": "step", "function": "app.typo"}]
    lines = refusal_lines(write_file(a_fleet(a_definition("a"), a_definition("b", tasks=strange))))
    assert lines[1:] == [
        "b/step: function='app.typo': no code registers it; registered are app.load, app.step"
    ]
    assert not Job.objects.exists()


@pytest.mark.req("JOB-4", "JOB-9")
def test_an_unregistered_hook_is_refused_by_name_and_nothing_is_written(
    write_file: Callable[..., str],
) -> None:
    lines = refusal_lines(write_file(a_fleet(a_definition("a", config={"on_complete": ["app.typo"]}))))
    assert lines[1:] == ["a: on_complete='app.typo': no code registers this hook; registered are none"]
    assert not Job.objects.exists()


@pytest.mark.req("JOB-4")
def test_an_unchanged_job_whose_code_is_gone_is_preserved(write_file: Callable[..., str]) -> None:
    path = write_file(a_fleet(a_definition("a")))
    apply_file(path)
    registry.functions.clear()
    assert apply_file(path)["preserved"] == ["a"]


# -- dry run -------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-6")
def test_a_dry_run_shows_everything_and_writes_nothing(write_file: Callable[..., str]) -> None:
    store([Definition.load(a_definition(name)) for name in ("changing", "staying")], CHANGE)
    plan_due(NOW)
    before = all_rows(), list(Occurrence.objects.values())
    wanted = write_file(
        a_fleet(a_definition("changing", "30 * * * *"), a_definition("staying"), a_definition("new"))
    )
    out = io.StringIO()
    call_command("punctual", "jobs", "apply", wanted, "--dry-run", stdout=out)
    text = out.getvalue()
    assert text.startswith('new  new\nchanged  changing\n   schedule: "@hourly" → "30 * * * *"\n')
    assert "   pending added: 20" in text
    assert text.endswith("1 new, 1 changed, 1 preserved, 0 removed (dry run: nothing was written)\n")
    assert (all_rows(), list(Occurrence.objects.values())) == before


@pytest.mark.req("JOB-6")
@pytest.mark.parametrize("policy", ["immediate", "graceful", "windowed"])
def test_the_preview_of_a_dry_run_is_what_apply_does(policy: str) -> None:
    store([Definition.load(a_definition(schedule="*/15 * * * *"))], CHANGE)
    plan_due(NOW)
    wanted = a_fleet(a_definition(schedule="*/20 * * * *"))
    planned = rollout.plan(read_entries(wanted).entries, now=LATER)
    kind = UpdatePolicy.named(policy)
    (diff,) = rollout.previews(planned, policy=kind, now=LATER)
    before = pending_instants()
    change = Change(Origin.FILE, "ann", LATER, policy=kind)
    rollout.apply(planned, change, progress=lambda _done: None)
    after = pending_instants()
    assert (set(diff.added), set(diff.removed)) == (after - before, before - after)
    assert set(diff.kept) == before & after
    assert after


def pending_instants() -> set[datetime]:
    return set(Occurrence.objects.filter(state="pending").values_list("scheduled_for", flat=True))
