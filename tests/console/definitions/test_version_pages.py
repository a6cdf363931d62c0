"""Versions of a job: listed, compared, restored, never rewritten."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from punctual.jobs.control import stop
from punctual.jobs.declaration.registry import registry
from punctual.jobs.models import Job, JobVersion, Origin
from tests.console.definitions.editable_jobs import FUNCTIONS, change_url, edit_url, pending, saved
from tests.console.definitions.form_driver import EditorSession
from tests.console.fixtures import Viewer, page, queries

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.req("JOB-5"),
    pytest.mark.req("OPS-2"),
    pytest.mark.usefixtures("functions"),
]

LIST = "/admin/punctual/jobversion/"


def version_url(job: Job, number: int) -> str:
    return f"{LIST}{JobVersion.objects.get(job=job, number=number).pk}/change/"


def restore_url(job: Job, number: int) -> str:
    return f"{edit_url(job)}?restore={number}"


def two_versions(**fields: Any) -> Job:
    saved(**fields)
    return saved(schedule="30 * * * *")


def test_the_job_lists_its_versions_with_author_and_reason(root: Client) -> None:
    job = two_versions()
    text = page(root, change_url(job))
    for number, reason in [(1, "set to 0 2 * * *"), (2, "set to 30 * * * *")]:
        assert version_url(job, number) in text
        assert reason in text
    assert "alice" in text


def test_a_version_shows_what_it_changed_and_only_that(root: Client) -> None:
    job = two_versions()
    text = page(root, version_url(job, 2))
    table = text[text.index("What it changed") :]
    assert "0 2 * * *" in table
    assert "30 * * * *" in table
    assert "function" not in table


@pytest.mark.req("JOB-6")
def test_restoring_makes_a_new_version_after_the_same_confirmation(root: Client) -> None:
    job = two_versions(metadata={"owner": "data"})
    assert restore_url(job, 1).replace("&", "&amp;") in page(root, version_url(job, 1))
    editing = EditorSession(root, restore_url(job, 1))
    assert editing.fields["reason"] == "Restore version 1"
    shown = editing.look()
    assert "metadata.owner" in shown
    assert "1 removed" in shown
    assert JobVersion.objects.count() == 2
    editing.confirm()
    job.refresh_from_db()
    assert (job.version, job.schedule, job.metadata) == (3, "0 2 * * *", {"owner": "data"})
    assert {instant.hour for instant in pending(job)} == {2}
    assert JobVersion.objects.get(job=job, number=3).reason == "Restore version 1"
    assert "version 3: Restore version 1" in LogEntry.objects.get().get_change_message()


def test_restoring_includes_enabled_and_the_confirmation_says_so(root: Client) -> None:
    job = saved()
    stop(job.name, author="bob")
    editing = EditorSession(root, restore_url(job, 1))
    shown = editing.look()
    assert "enabled" in shown[shown.index("Definition") :]
    editing.confirm()
    job.refresh_from_db()
    assert (job.version, job.enabled) == (3, True)


@pytest.mark.req("JOB-4")
def test_restoring_a_version_without_its_function_requires_another(root: Client) -> None:
    job = two_versions()
    del registry.functions[FUNCTIONS[0]]
    editing = EditorSession(root, restore_url(job, 1))
    assert f"Stored is {FUNCTIONS[0]}: no code registers it." in editing.page
    assert "This field is required" in editing.look()


def test_the_current_version_and_those_owned_elsewhere_are_not_restored(root: Client) -> None:
    job = two_versions()
    assert "?restore=" not in page(root, version_url(job, 2))
    Job.objects.update(origin=Origin.CODE)
    assert "?restore=" not in page(root, version_url(job, 1))
    assert root.get(restore_url(job, 1)).status_code == 403


def test_restoring_needs_the_permission_to_change(viewer: Viewer) -> None:
    job = two_versions()
    client = viewer("punctual.view_job", "punctual.view_jobversion")
    assert "?restore=" not in page(client, version_url(job, 1))
    assert client.get(restore_url(job, 1)).status_code == 403


@pytest.mark.parametrize("number", ["3", "0", "-1", "x", "9" * 30])
def test_a_version_that_does_not_exist_is_not_found(root: Client, number: str) -> None:
    job = two_versions()
    assert root.get(f"{edit_url(job)}?restore={number}").status_code == 404


def test_versions_are_read_only_even_for_a_superuser(root: Client) -> None:
    job = two_versions()
    before = list(JobVersion.objects.values())
    path = version_url(job, 1)
    assert root.post(path, {"reason": "rewritten"}).status_code == 403
    assert root.post(path.replace("change", "delete"), {"post": "yes"}).status_code == 403
    assert root.get(f"{LIST}add/").status_code == 403
    assert list(JobVersion.objects.values()) == before


def test_a_version_damaged_by_raw_sql_still_has_a_page(root: Client) -> None:
    job = two_versions()
    JobVersion.objects.filter(number=1).update(after=[1, {"tasks": 3}], before={"tasks": ["x"], "config": 5})
    page(root, version_url(job, 1))
    assert EditorSession(root, restore_url(job, 1)).response.status_code == 200


def test_the_list_costs_the_same_queries_for_few_versions_and_many(root: Client) -> None:
    saved()
    few = queries(root, LIST)
    for hour in range(3, 15):
        saved(schedule=f"0 {hour} * * *")
        saved(f"job {hour}")
    assert len(queries(root, LIST)) == len(few) <= 9
