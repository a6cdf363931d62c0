"""Every page of the hierarchy: its links, its cost, its behaviour without data and with odd names."""

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from punctual.console.definitions.history import attach_history
from punctual.execution.models import Process
from punctual.jobs.models import Job, JobVersion
from punctual.occurrences.models import Cursor, Pool, TaskRun
from punctual.occurrences.states import OccurrenceState
from punctual.operations.audit import audited
from punctual.operations.models import AuditedAction
from punctual.recovery.requester import Requester
from tests.console.fixtures import page, queries
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_story, make_task
from tests.console.ledgers import fill
from tests.console.paths import change_pages, filtered_lists, lists, pages

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

LISTS = [
    "/admin/punctual/job/",
    "/admin/punctual/task/",
    "/admin/punctual/occurrence/",
    "/admin/punctual/taskrun/",
    "/admin/punctual/attempt/",
    "/admin/punctual/process/",
]
MINUTE = timedelta(minutes=1)
MOST_QUERIES = 20
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
            Process.objects.create(
                kind="beat", name=name, started_at=now, seen_at=now, tick_duration=timedelta()
            )
        costs.append(queries(root, path))
    assert len(costs[0]) == len(costs[1]) <= 10
    counts = [sql for sql in costs[1] if "COUNT(" in sql.upper()]
    assert len(counts) == 1, "the counters of every page, and nothing else"


def audit(reason: str, now: datetime) -> None:
    with audited(AuditedAction.REPLAY, Requester("ada", reason), now=now, details={}) as entry:
        entry.add(1)


def test_every_page_costs_the_same_queries_for_few_rows_and_many(root: Client, now: datetime) -> None:
    """The bound is the cost of the most expensive page; a page that queries per row exceeds it."""
    fill("small", now)
    audit("the disk was replaced", now)
    # Of the same rows both times: there will be others that come before them.
    paths = {**lists(), **filtered_lists(), **pages(), **change_pages()}
    few = {name: len(queries(root, path)) for name, path in paths.items()}
    grow(now)
    many = {name: len(queries(root, path)) for name, path in paths.items()}
    assert many == few
    assert max(few.values()) <= MOST_QUERIES, few


def grow(now: datetime) -> None:
    """Add ten times the rows below each existing one."""
    fill("broken", now)
    fill("odd", now)
    for job in list(Job.objects.all()):
        tasks = [make_task(job, f"more {number}", position=9 + number) for number in range(3)]
        for number in range(12):
            occurrence = make_occurrence(job, now - (5000 + number) * MINUTE)
            for task in tasks:
                make_attempt(make_run(occurrence, task, fingerprint="", attempts_made=1))
        for number in range(10, 20):
            JobVersion.objects.create(job=job, number=number, author="ada", after={}, created_at=now)
    for run in TaskRun.objects.order_by("pk")[:20]:
        for number in range(5, 9):
            make_attempt(run, number)
    for number in range(30):
        audit("again", now)
        name = f"many {number}"
        Pool.objects.create(name=name, size=1)
        Process.objects.create(kind="beat", name=name, started_at=now, seen_at=now, tick_duration=timedelta())


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_shown_and_escaped(root: Client, name: str, now: datetime) -> None:
    job, occurrence, run, attempt = make_story(name, now)
    details = [
        f"/admin/punctual/job/{job.pk}/change/",
        f"/admin/punctual/occurrence/{occurrence.pk}/change/",
        f"/admin/punctual/taskrun/{run.pk}/change/",
        f"/admin/punctual/attempt/{attempt.pk}/change/",
    ]
    for path in [*LISTS, *details]:
        assert "<script>alert" not in page(root, path)


def test_the_hierarchy_is_linked_down_and_up(root: Client, now: datetime) -> None:
    rows = make_story("etl", now)
    kinds = ("punctual/job", "punctual/occurrence", "punctual/taskrun", "punctual/attempt")
    paths = [f"/admin/{kind}/{row.pk}/change/" for kind, row in zip(kinds, rows, strict=True)]
    shown = [page(root, path) for path in paths]
    for upper, lower in [(0, 1), (1, 2), (2, 3)]:
        assert paths[lower] in shown[upper]
        assert paths[upper] in shown[lower]
    assert f"punctual/occurrence/?job__id__exact={rows[0].pk}" in shown[0]


def test_a_job_shows_how_it_ended_last_and_its_earliest_next_run(now: datetime) -> None:
    job = make_job("etl", now)
    other = make_job("other", now)
    make_occurrence(job, now - 2 * MINUTE, OccurrenceState.COMPLETED)
    last = make_occurrence(job, now - MINUTE, OccurrenceState.FAILED)
    make_occurrence(job, now + 2 * MINUTE, OccurrenceState.PENDING)
    make_occurrence(job, now + MINUTE, OccurrenceState.PENDING)
    rows: list[Any] = [job, other]
    attach_history(rows)
    assert [row.next_run_at for row in rows] == [now + MINUTE, None]
    assert [len(row.ended) for row in rows] == [2, 0]
    assert job.ended[0].id == last.pk  # type: ignore[attr-defined]  # attached above


def test_a_job_that_cannot_be_planned_says_why(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    facts = {"settled_until": now, "problem": "schedule: found 3 fields"}
    Cursor.objects.update_or_create(job=job, defaults=facts)
    assert "found 3 fields" in page(root, "/admin/punctual/job/")
    assert "found 3 fields" in page(root, f"/admin/punctual/job/{job.pk}/change/")


def test_a_page_leaves_out_empty_fields_and_has_no_submit_button(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    rows = make_occurrence(job, now, OccurrenceState.PENDING), make_occurrence(job, now - MINUTE)
    pending, over = (page(root, f"/admin/punctual/occurrence/{row.pk}/change/") for row in rows)
    found = [bool(re.search(r"Finished:?\s*</label>", text)) for text in (pending, over)]
    assert found == [False, True]
    assert "submit-row" not in pending


def test_paging_forth_and_back_loses_and_repeats_no_row(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    rows = [make_occurrence(job, now + minute * MINUTE) for minute in range(120)]
    path = "/admin/punctual/occurrence/"
    walked, shown = [path], page(root, path)
    assert 'rel="prev"' not in shown
    while place := re.search(r'rel="next" href="([^"]+)"', shown):
        walked.append(f"{path}{unescape(place[1])}")
        shown = page(root, walked[-1])
    seen = [ids(page(root, one)) for one in walked]
    assert [len(one) for one in seen] == [50, 50, 20]
    assert [id_ for one in seen for id_ in one] == [str(row.pk) for row in reversed(rows)]
    back = re.search(r'rel="prev" href="([^"]+)"', shown)
    assert back is not None
    assert ids(page(root, f"{path}{unescape(back[1])}")) == seen[1]


def test_rows_of_the_same_instant_are_neither_lost_nor_repeated(root: Client, now: datetime) -> None:
    rows = {str(make_occurrence(make_job(f"job {number}", now), now).pk) for number in range(60)}
    path = "/admin/punctual/occurrence/"
    first = page(root, path)
    place = re.search(r'rel="next" href="([^"]+)"', first)
    assert place is not None
    second = ids(page(root, f"{path}{unescape(place[1])}"))
    assert len(second) == 10
    assert {*ids(first), *second} == rows


def test_a_far_page_is_read_by_index_without_offset(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    middle = [make_occurrence(job, now + minute * MINUTE) for minute in range(3)][1]
    far = queries(root, f"/admin/punctual/occurrence/?after={middle.pk}")
    assert not [sql for sql in far if "OFFSET" in sql]
    assert [sql for sql in far if '"scheduled_for" <=' in sql]


@pytest.mark.parametrize("place", ["after=nonsense", "after=00000000-0000-0000-0000-000000000001", "before="])
def test_a_deleted_place_leads_to_the_first_page(root: Client, now: datetime, place: str) -> None:
    occurrence = make_story("etl", now)[1]
    assert ids(page(root, f"/admin/punctual/occurrence/?{place}")) == [str(occurrence.pk)]


def test_a_filter_starts_again_from_the_first_page(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    rows = [make_occurrence(job, now + minute * MINUTE) for minute in range(2)]
    shown = page(root, f"/admin/punctual/occurrence/?after={rows[1].pk}")
    assert ids(shown) == [str(rows[0].pk)]
    links = re.findall(r'href="(\?[^"]*)"', shown)
    assert links
    assert not [link for link in links if "after=" in link and 'rel="next"' not in link]


def ids(shown: str) -> list[str]:
    """The rows of a list, in its order."""
    found = re.findall(r"/punctual/occurrence/([0-9a-f-]{36})/change/", shown)
    return list(dict.fromkeys(found))


def test_the_sidebar_follows_the_hierarchy(root: Client) -> None:
    text = page(root, "/admin/")
    sidebar = text[text.index("nav-sidebar-apps") :]
    titles = ["Jobs", "Occurrences", "Runs", "Attempts", "Pools", "Beats and workers"]
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


def test_typing_in_the_filter_finds_jobs_page_by_page(root: Client, now: datetime) -> None:
    for number in range(25):
        make_job(f"etl {number:02d}", now)
    make_job("mail", now)
    query = urlencode({"app_label": "punctual", "model_name": "occurrence", "field_name": "job"})
    first = root.get(f"/admin/autocomplete/?{query}&term=etl").json()
    assert [one["text"] for one in first["results"]] == [f"etl {number:02d}" for number in range(20)]
    assert first["pagination"]["more"] is True
    second = root.get(f"/admin/autocomplete/?{query}&term=etl&page=2").json()
    assert [one["text"] for one in second["results"]] == [f"etl {number:02d}" for number in range(20, 25)]
    assert second["pagination"]["more"] is False
