"""Probes and scrapes need no login, accept any host name, and are never cached."""

from datetime import datetime

import pytest
from django.db import DatabaseError, connection
from django.test import Client, override_settings

from punctual.console.site import PAGES
from tests.console.ledger_rows import make_job, make_occurrence

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
def test_metrics_report_an_unreachable_database_in_one_line(client: Client) -> None:
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


def test_the_sidebar_lists_no_page_twice() -> None:
    assert len({page for _, _, page, _ in PAGES}) == len(PAGES)


@override_settings(ALLOWED_HOSTS=["punctual.example.org"], SECURE_SSL_REDIRECT=True)
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/metrics", 200)])
def test_a_probe_by_address_is_answered(db: None, path: str, status: int) -> None:
    assert Client().get(path, headers={"host": "10.0.0.7:8000"}).status_code == status


@override_settings(ALLOWED_HOSTS=["punctual.example.org"])
def test_any_other_page_refuses_an_unknown_host_name(db: None) -> None:
    assert Client().get("/admin/", headers={"host": "10.0.0.7:8000"}).status_code == 400


def test_a_probe_takes_no_other_method() -> None:
    assert Client().post("/healthz").status_code == 405
