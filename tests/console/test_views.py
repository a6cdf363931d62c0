"""Probes and scrapes need no login and are never cached."""

from datetime import datetime

import pytest
from django.db import DatabaseError, connection
from django.test import Client

from console.sidebar import PAGES
from tests.console.rows import make_job, make_occurrence

pytestmark = pytest.mark.req("OPS-4")


@pytest.mark.django_db
def test_metrics_come_as_prometheus_text(client: Client, now: datetime) -> None:
    make_occurrence(make_job("etl", now), now)
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=")
    line = 'scheduler_job_occurrences_total{job="etl",status="completed"} 1.0'
    assert line in response.content.decode().splitlines()


@pytest.mark.django_db
def test_metrics_say_in_one_line_that_the_database_is_gone(client: Client) -> None:
    def gone(*_args: object) -> object:
        raise DatabaseError("postgres://user:hunter2@db/app: no route")

    with connection.execute_wrapper(gone):
        response = client.get("/metrics")
    assert response.status_code == 503
    assert response.content == b"the database cannot be read (DatabaseError)\n"


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
@pytest.mark.django_db
def test_answers_are_never_cached_and_nothing_can_be_posted(client: Client, path: str) -> None:
    assert "no-store" in client.get(path)["Cache-Control"]
    assert client.post(path).status_code == 405


def test_no_page_stands_twice_in_the_sidebar() -> None:
    assert len({page for _, _, page, _ in PAGES}) == len(PAGES)
