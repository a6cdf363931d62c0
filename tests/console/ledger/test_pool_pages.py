"""Pools: slots, holders and waiting occurrences; only the size can be changed."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from punctual.occurrences.models import Pool
from punctual.occurrences.states import OccurrenceState
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_job, make_occurrence
from tests.occurrences.factories import a_job, an_occurrence, saved

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LIST = "/admin/punctual/pool/"


def row_of(name: str, text: str) -> str:
    return next(row for row in text.split("<tr") if f">{name}<" in row)


@pytest.mark.req("OCC-6")
@pytest.mark.req("OPS-2")
def test_a_pool_shows_its_slots_and_what_waits(viewer: Viewer) -> None:
    Pool.objects.create(name="reports", size=7)
    states = [OccurrenceState.RUNNING] * 2 + [OccurrenceState.QUEUED] * 3 + [OccurrenceState.COMPLETED]
    for number, state in enumerate(states):
        row = an_occurrence(saved(a_job(f"job-{number}", NOW)), NOW + timedelta(minutes=number), state)
        row.pool = "reports"
        saved(row)
    text = viewer("punctual.view_pool").get(LIST).content.decode()
    shown = row_of("reports", text).replace("\n", "")
    assert "2 of 7" in shown
    assert ">3<" in shown
    assert [f"job-{number}" in shown for number in range(6)] == [True, True, False, False, False, False]


@pytest.mark.req("OCC-6")
def test_an_operator_changes_the_size_and_nothing_else(viewer: Viewer) -> None:
    Pool.objects.create(name="reports", size=7)
    client = viewer("punctual.view_pool", "punctual.change_pool")
    client.post(f"{LIST}reports/change/", {"name": "other", "size": "9"})
    assert list(Pool.objects.values_list("name", "size")) == [("reports", 9)]


@pytest.mark.req("OPS-2")
def test_changing_a_pool_needs_its_permission(viewer: Viewer) -> None:
    Pool.objects.create(name="reports", size=7)
    client = viewer("punctual.view_pool")
    assert client.post(f"{LIST}reports/change/", {"size": "9"}).status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403
    assert Pool.objects.get().size == 7


def test_the_list_costs_the_same_queries_for_few_pools_and_many(viewer: Viewer) -> None:
    client = viewer("punctual.view_pool")
    client.get(LIST)
    costs = []
    for size in (2, 30):
        for number in range(size):
            name = f"pool-{size}-{number}"
            Pool.objects.create(name=name, size=1)
            make_occurrence(make_job(name, NOW), NOW, OccurrenceState.RUNNING, pool=name)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(LIST).status_code == 200
        costs.append(len(queries))
    assert costs[0] == costs[1]


@pytest.mark.req("OPS-2")
def test_a_pool_lists_the_holders_of_its_slots_and_what_is_next(root: Client, now: datetime) -> None:
    pool = Pool.objects.create(name="small", size=1)
    job, other = make_job("holder", now), make_job("waiter", now)
    make_occurrence(job, now, OccurrenceState.RUNNING, pool="small")
    make_occurrence(other, now, OccurrenceState.QUEUED, pool="small", priority=7)
    make_occurrence(make_job("elsewhere", now), now, OccurrenceState.RUNNING)
    text = page(root, f"/admin/punctual/pool/{pool.pk}/change/")
    assert text.index("Who holds the slots") < text.index(">holder<") < text.index("Who is next")
    assert text.index("Who is next") < text.index(">waiter<")
    assert ">elsewhere<" not in text
