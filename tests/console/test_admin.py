"""Every page of the hierarchy: its links, its cost, its behaviour without data and with odd names."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from beat.models import Beat
from console.admin import attach_ledger
from jobs.models import Job
from occurrences.models import Cursor
from occurrences.states import OccurrenceState
from tests.console.pages import page, queries
from tests.console.rows import make_job, make_occurrence, make_story

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

LISTS = [
    "/admin/jobs/job/",
    "/admin/jobs/task/",
    "/admin/occurrences/occurrence/",
    "/admin/occurrences/taskrun/",
    "/admin/occurrences/attempt/",
    "/admin/beat/beat/",
]
MINUTE = timedelta(minutes=1)
ODD = ["x" * 200, "夜間バッチ処理", "<script>alert(1)</script>", "a & b “quoted”"]


@pytest.mark.parametrize("path", ["/admin/", *LISTS])
def test_a_page_works_on_an_empty_database(root: Client, path: str) -> None:
    page(root, path)


@pytest.mark.parametrize("path", LISTS)
def test_a_list_costs_the_same_queries_for_few_rows_and_many(root: Client, path: str, now: datetime) -> None:
    costs = []
    for size in (2, 12):
        for number in range(size):
            make_story(f"job {size} {number}", now)
            name = f"host:{size}{number}"
            Beat.objects.create(name=name, started_at=now, ticked_at=now, lag=timedelta())
        costs.append(queries(root, path))
    assert len(costs[0]) == len(costs[1]) <= 9
    assert not [sql for sql in costs[1] if "COUNT(" in sql.upper()]


def test_a_page_costs_the_same_queries_for_few_children_and_many(root: Client, now: datetime) -> None:
    job = make_story("etl", now)[0]
    path = f"/admin/jobs/job/{job.pk}/change/"
    few = queries(root, path)
    for minute in range(1, 12):
        make_occurrence(job, now + minute * MINUTE)
    assert len(queries(root, path)) == len(few)


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_shown_and_escaped(root: Client, name: str, now: datetime) -> None:
    job, occurrence, run, attempt = make_story(name, now)
    details = [
        f"/admin/jobs/job/{job.pk}/change/",
        f"/admin/occurrences/occurrence/{occurrence.pk}/change/",
        f"/admin/occurrences/taskrun/{run.pk}/change/",
        f"/admin/occurrences/attempt/{attempt.pk}/change/",
    ]
    for path in [*LISTS, *details]:
        assert "<script>alert" not in page(root, path)


def test_the_hierarchy_is_linked_down_and_up(root: Client, now: datetime) -> None:
    rows = make_story("etl", now)
    kinds = ("jobs/job", "occurrences/occurrence", "occurrences/taskrun", "occurrences/attempt")
    paths = [f"/admin/{kind}/{row.pk}/change/" for kind, row in zip(kinds, rows, strict=True)]
    shown = [page(root, path) for path in paths]
    for upper, lower in [(0, 1), (1, 2), (2, 3)]:
        assert paths[lower] in shown[upper]
        assert paths[upper] in shown[lower]
    assert f"occurrences/occurrence/?job__id__exact={rows[0].pk}" in shown[0]


def test_a_job_shows_its_last_outcome_and_its_earliest_next_run(now: datetime) -> None:
    job = make_job("etl", now)
    other = make_job("other", now)
    make_occurrence(job, now - 2 * MINUTE, OccurrenceState.COMPLETED)
    last = make_occurrence(job, now - MINUTE, OccurrenceState.FAILED)
    make_occurrence(job, now + 2 * MINUTE, OccurrenceState.PENDING)
    make_occurrence(job, now + MINUTE, OccurrenceState.PENDING)
    rows: list[Any] = [job, other]
    attach_ledger(rows)
    assert [(row.next_run_at, row.last) for row in rows] == [(now + MINUTE, last), (None, None)]


def test_a_job_that_cannot_be_planned_says_why(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    facts = {"settled_until": now, "problem": "schedule: found 3 fields"}
    Cursor.objects.update_or_create(job=job, defaults=facts)
    assert "found 3 fields" in page(root, "/admin/jobs/job/")
    assert "found 3 fields" in page(root, f"/admin/jobs/job/{job.pk}/change/")


def test_the_next_page_is_offered_only_when_there_is_one(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    for minute in range(50):
        make_occurrence(job, now + minute * MINUTE)
    path = "/admin/occurrences/occurrence/"
    assert 'rel="next"' not in page(root, path)
    oldest = make_occurrence(job, now - MINUTE)
    assert 'rel="next"' in page(root, path)
    second = page(root, f"{path}?p=2")
    assert str(oldest.pk) in second
    assert 'rel="next"' not in second
    assert 'rel="prev"' in second


def test_the_sidebar_follows_the_hierarchy(root: Client) -> None:
    text = page(root, "/admin/")
    sidebar = text[text.index("nav-sidebar-apps") :]
    titles = ["Jobs", "Occurrences", "Runs", "Attempts", "Pools", "Beats"]
    places = [sidebar.index(f"<span>{title}</span>") for title in titles]
    assert places == sorted(places)


def test_a_filter_by_job_does_not_list_all_jobs(root: Client, now: datetime) -> None:
    Job.objects.bulk_create(
        Job(id=f"{number:032x}", name=f"unseen {number}", created_at=now, updated_at=now)
        for number in range(30)
    )
    for path in LISTS[1:5]:
        text = page(root, path)
        assert "unseen" not in text
        assert "/admin/autocomplete/" in text
