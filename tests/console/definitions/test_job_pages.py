"""The list and the page of jobs: states, search, settings, schedules, and who may change a definition."""

import html
import re
from datetime import datetime
from typing import Any

import pytest
from django.test import Client, override_settings

from punctual.jobs.models import Job, JobVersion, Origin
from tests.console.definitions.editable_jobs import LIST, change_url
from tests.console.fixtures import page, pages, queries, root, viewer
from tests.console.ledger_rows import make_job, make_task

__all__ = ["pages", "root", "viewer"]  # fixtures
pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


@pytest.mark.parametrize("origin", [Origin.CODE, Origin.FILE, Origin.POLLING])
def test_a_definition_owned_elsewhere_is_read_only_and_says_why(
    root: Client, now: datetime, origin: Origin
) -> None:
    job = make_job("etl", now, origin=origin)
    text = page(root, change_url(job))
    assert "read-only here" in text
    assert 'name="schedule"' not in text
    assert root.post(change_url(job), {"schedule": "@hourly"}).status_code == 403


def test_jobs_cannot_be_deleted(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    assert root.post(f"{LIST}{job.pk}/delete/", {"post": "yes"}).status_code == 403


def test_each_state_can_be_filtered_and_matches_its_badge(root: Client, now: datetime) -> None:
    make_task(make_job("is active", now))
    make_task(make_job("is paused", now, paused_at=now))
    make_task(make_job("is disabled", now, enabled=False))
    make_task(make_job("is removed", now, removed_at=now), registered=False)
    make_task(make_job("is unresolved", now, paused_at=now), registered=False)
    for state in ("active", "paused", "disabled", "removed", "unresolved"):
        text = page(root, f"{LIST}?state={state}")
        names = {name for name in Job.objects.values_list("name", flat=True) if name in text}
        assert names == {f"is {state}"}
        assert f"</svg>{state}</span>" in text


@pytest.mark.parametrize("term", ["ETL", "{display_id}", "{id}"])
def test_a_job_is_found_by_name_or_id(root: Client, now: datetime, term: str) -> None:
    job = make_job("nightly etl", now)
    make_job("other", now)
    text = page(root, f"{LIST}?q={term.format(display_id=job.display_id, id=job.pk)}")
    assert "nightly etl" in text
    assert "other" not in text


def test_a_task_without_a_registered_function_is_marked_on_the_page_of_its_job(
    root: Client, now: datetime
) -> None:
    job = make_job("etl", now)
    make_task(job, "known")
    task = make_task(job, "lost", registered=False)
    for path in (change_url(job), f"/admin/punctual/task/{task.pk}/change/"):
        assert "No code registers it." in page(root, path)


@pytest.mark.req("OPS-2")
def test_the_page_of_a_task_shows_its_function_in_full(root: Client, now: datetime) -> None:
    task = make_task(make_job("etl", now), "x" * 150)
    assert f">{task.function}</span>" in page(root, f"/admin/punctual/task/{task.pk}/change/")
    assert f">{task.function}</span>" not in page(root, "/admin/punctual/task/")


@pytest.mark.req("JOB-2")
def test_each_effective_setting_names_the_layer_it_comes_from(root: Client, now: datetime) -> None:
    job = make_job("etl", now, config={"overlap": "queue", "task_timeout": "7m"})
    make_task(job, "extract")
    make_task(job, "load", config={"task_timeout": "11m"})
    with override_settings(PUNCTUAL={"misfire_grace": "13m"}):
        rows = configuration(page(root, change_url(job)))
    assert ("mode", "sequential", "default", "the job") in rows
    assert ("misfire_grace", "13m", "platform", "the job") in rows
    assert ("overlap", "queue", "job", "the job") in rows
    assert ("task_timeout", "7m", "job", "the job") in rows
    assert [row for row in rows if row[3] != "the job"] == [("task_timeout", "11m", "task", "load")]


def test_the_page_shows_the_schedule_in_words_and_its_next_fires(root: Client, now: datetime) -> None:
    job = make_job("etl", now, schedule="TZ=Asia/Tokyo 0 2 * * *")
    text = page(root, change_url(job))
    assert "at 02:00 every day, Asia/Tokyo time" in text
    assert text.count("02:00:00 Asia/Tokyo") == 5


@pytest.mark.parametrize("damaged", [{"schedule": "tomorrow"}, {"config": {"mode": "sideways"}}])
def test_a_row_damaged_by_raw_sql_still_has_a_page(root: Client, now: datetime, damaged: Any) -> None:
    job = make_job("etl", now, **damaged)
    page(root, change_url(job))


def test_the_page_costs_the_same_queries_for_few_tasks_and_versions_and_many(
    root: Client, now: datetime
) -> None:
    job = make_job("etl", now)
    make_task(job)
    few = queries(root, change_url(job))
    for number in range(20):
        make_task(job, f"step {number}", config={"queue": f"q{number}"})
        JobVersion.objects.create(job=job, number=number + 1, author="a", after={}, created_at=now)
    assert len(queries(root, change_url(job))) == len(few)


def configuration(text: str) -> set[tuple[str, ...]]:
    """The rows of what is set, and of the defaults folded below it, without their markup."""
    section = text[text.index("Effective configuration") :]
    section = section[: section.index("</details>")]
    found = re.findall(r"<tr.*?</tr>", section, re.DOTALL)
    cells = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in found]
    return {tuple(html.unescape(re.sub(r"<.*?>", "", cell)).strip() for cell in row) for row in cells if row}
