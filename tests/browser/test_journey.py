"""An operator's path through the console in a real browser: log in, a job, its runs."""

import importlib
import importlib.util
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from pytest_django.live_server_helper import LiveServer

from punctual.occurrences.states import RunState
from tests.console.fixtures import pages
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PASSWORD = "a long way to the console"  # noqa: S105 - of a user that lives for one test
POLICY = "Content Security Policy"  # how the browser names it in the messages of its console
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

__all__ = ["pages"]  # a fixture
pytestmark = [
    pytest.mark.browser,
    pytest.mark.req("OPS-2"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None,
        reason="playwright is not installed (pip install playwright)",
    ),
]


@pytest.fixture
def site(pages: None, request: pytest.FixtureRequest) -> str:
    """Return the address of the console; requested late, so that the server starts with `pages` applied."""
    server: LiveServer = request.getfixturevalue("live_server")
    return server.url


@contextmanager
def browser_page() -> Iterator[Any]:
    """Open a page and fail on script errors and on scripts that the Content-Security-Policy forbids."""
    with (
        importlib.import_module("playwright.sync_api").sync_playwright() as playwright,
        # Playwright keeps an event loop in this thread; the test goes on using its database there.
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "on")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page()
        page.set_default_timeout(20_000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.extend([line.text] if POLICY in line.text else []))
        yield page
        browser.close()
        connections.close_all()  # those that belong to the event loop's context
    assert problems == []


def test_an_operator_finds_what_a_job_did(site: str, now: datetime) -> None:
    User.objects.create_superuser("operator", password=PASSWORD)
    job = make_job("nightly etl", now, schedule="TZ=Europe/Berlin 0 2 * * *")
    occurrence = make_occurrence(job, now)
    run = make_run(occurrence, make_task(job, "extract"))
    make_attempt(run)
    make_run(occurrence, make_task(job, "load"), RunState.DLQ, error="disk full")

    with browser_page() as page:
        page.goto(f"{site}/")
        page.fill("#id_username", "operator")
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")

        page.click("#nav-sidebar-apps a:has-text('Jobs')")
        page.click("#result_list a:has-text('nightly etl')")
        page.wait_for_selector("a:has-text('Run now…')")

        page.click(f"section a[href*='{occurrence.pk}']")
        page.wait_for_url(f"**/occurrence/{occurrence.pk}/change/")
        assert "13:00:00 Europe/Berlin" in page.inner_text("#content-main")
        runs = page.inner_text("section:has(h2:text('Runs'))")
        assert re.search(r"extract\s+success", runs, re.IGNORECASE)
        assert re.search(r"load\s+dead letter.*disk full", runs, re.IGNORECASE | re.DOTALL)

        page.click(f"section a[href*='{run.pk}']")
        page.wait_for_url(f"**/taskrun/{run.pk}/change/")
        assert "attempt_" in page.inner_text("section:has(h2:text('Attempts'))")


def test_run_now_asks_and_shows_where_it_went(site: str, now: datetime) -> None:
    User.objects.create_superuser("operator", password=PASSWORD)
    job = make_job("nightly etl", now)
    make_task(job, "extract")

    with browser_page() as page:
        page.goto(f"{site}/admin/punctual/job/{job.pk}/change/")
        page.fill("#id_username", "operator")
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")
        page.click("a:has-text('Run now…')")
        page.click("#content-main button:has-text('Run')")
        page.click("a:has-text('occ_')")
        page.wait_for_url("**/occurrence/*/change/")
        assert "manual" in page.inner_text("#content-main")
