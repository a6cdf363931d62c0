"""A secret that is in settings, in arguments or in an error is on no page, in no metric and in no answer."""

from datetime import datetime

import pytest
from django.conf import settings
from django.test import Client, override_settings

from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from tests.console.fixtures import page
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task
from tests.console.paths import lists, pages

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-7")]

WORD = "hunter2"
ADDRESS = f"postgres://app:{WORD}@db.internal/app"


@pytest.fixture
def secret_rows(now: datetime) -> None:
    """Rows with the secret in every column that can hold text."""
    job = make_job("etl", now, metadata={"api_key": WORD}, config={})
    task = make_task(job)
    facts = {"args": {"password": WORD, "source": ADDRESS}, "report": {"tasks": [{"error": ADDRESS}]}}
    one = make_occurrence(job, now, OccurrenceState.FAILED, reason=ADDRESS, **facts)
    run = make_run(one, task, RunState.DLQ, error=f"no route to {ADDRESS}", fingerprint="f" * 16)
    log = {"log": f"connecting to {ADDRESS}", "traceback": f"OSError: {ADDRESS}", "error": ADDRESS}
    make_attempt(run, 0, AttemptState.FAILED, **log)


def test_no_page_shows_a_secret(root: Client, secret_rows: None) -> None:
    for name, path in {**lists(), **pages()}.items():
        assert WORD not in page(root, path), name


@override_settings(PUNCTUAL={}, CELERY_BROKER_URL=f"redis://:{WORD}@cache/0")
def test_no_probe_and_no_metric_shows_a_secret(client: Client, secret_rows: None) -> None:
    for path in ("/metrics", "/healthz", "/readyz"):
        text = client.get(path).content.decode()
        assert WORD not in text
        assert settings.SECRET_KEY not in text


def test_an_error_page_shows_nothing_of_the_settings(root: Client) -> None:
    answer = root.get("/admin/punctual/occurrence/not-a-uuid/change/", follow=True)
    assert settings.SECRET_KEY not in answer.content.decode()
    assert "DATABASES" not in root.get("/admin/no/such/page/").content.decode()
