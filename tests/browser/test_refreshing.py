"""Lists refresh themselves in a real browser: not while hidden, and not while the user works in them."""

from collections.abc import Callable
from typing import Any

import pytest

from punctual.jobs.clock import database_now
from punctual.occurrences.states import OccurrenceState, RunState
from tests.browser.test_console import log_in
from tests.browser.test_journey import browser_page, pytestmark, site
from tests.console.fixtures import pages
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

__all__ = ["pages", "pytestmark", "site"]

WHILE = 6_000  # milliseconds; one rhythm and a bit
JOBS, RUNS = "/admin/punctual/job/", "/admin/punctual/taskrun/"


def make_failed_job(name: str) -> None:
    """Make a job whose run is a dead letter: a new row in every list."""
    now = database_now()
    job = make_job(name, now)
    facts = {"error": f"{name} broke", "fingerprint": f"{len(name):016d}"}
    make_run(make_occurrence(job, now, OccurrenceState.FAILED), make_task(job), RunState.DLQ, **facts)


def rows_of(page: Any) -> str:
    return str(page.inner_text("#list, #dead"))


@pytest.mark.parametrize("path", [JOBS, "/admin/punctual/occurrence/", RUNS, "/admin/dead-letters/"])
def test_a_list_shows_what_is_new_without_a_reload(site: str, path: str) -> None:
    make_failed_job("first")
    with browser_page() as page:
        page.clock.install()
        log_in(page, site, path)
        assert "newcomer" not in rows_of(page)
        make_failed_job("newcomer")
        page.clock.run_for(WHILE)
        page.wait_for_selector(":is(#list, #dead) :text('newcomer') >> nth=0")


def test_boxes_of_a_refreshed_list_are_counted_and_acted_on(site: str) -> None:
    make_failed_job("first")
    with browser_page() as page:
        page.clock.install()
        log_in(page, site, JOBS)
        make_failed_job("newcomer")
        page.clock.run_for(WHILE)
        page.wait_for_selector("#list >> text=newcomer")
        page.check("#action-toggle")
        assert page.locator("input.action-select:checked").count() == 2
        assert page.inner_text(".action-counter") == "2 of 2 selected"
        page.uncheck("input.action-select >> nth=0")
        assert page.inner_text(".action-counter") == "1 of 2 selected"
        page.select_option("select[name=action]", "run_now")
        page.click("#changelist-actions-wrapper button[type=submit]")
        assert page.inner_text("[data-count]") == "1"


def counters_refresh(page: Any, times: int) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for _ in range(100):
        page.clock.run_for(1_000)
        page.wait_for_timeout(50)
        if sum(url.endswith("/admin/pulse/") for url in requests) >= times:
            return
    raise AssertionError(f"the counters were requested {len(requests)} times")


def ticks_a_row(page: Any) -> None:
    page.check("input.action-select >> nth=0")
    page.evaluate("document.activeElement.blur()")


def types_a_search(page: Any) -> None:
    page.fill("#searchbar", "fir")


def opens_the_filters(page: Any) -> None:
    page.focus("button.filters")
    page.keyboard.press("Enter")
    page.clock.run_for(100)
    assert page.evaluate("document.querySelector('#changelist-filter').contains(document.activeElement)")
    page.evaluate("document.activeElement.blur()")


def closes_the_filters(page: Any) -> None:
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.matches('button.filters')")


def reads_with_the_keyboard(page: Any) -> None:
    page.focus("#result_list tbody th a")


def leaves(page: Any) -> None:
    page.evaluate("document.activeElement.blur()")


@pytest.mark.parametrize(
    ("does", "ceases"),
    [
        (ticks_a_row, lambda page: page.uncheck("input.action-select >> nth=0")),
        (types_a_search, leaves),
        (opens_the_filters, closes_the_filters),
        (reads_with_the_keyboard, leaves),
    ],
)
def test_a_list_is_not_refreshed_while_the_user_works_in_it(
    site: str, does: Callable[[Any], None], ceases: Callable[[Any], None]
) -> None:
    make_failed_job("first")
    with browser_page() as page:
        page.clock.install()
        log_in(page, site, RUNS)
        does(page)
        make_failed_job("newcomer")
        counters_refresh(page, times=2)  # the second time, whatever the first time brought is there
        assert "newcomer" not in rows_of(page)
        ceases(page)
        page.evaluate("document.activeElement.blur()")
        page.clock.run_for(WHILE)
        page.wait_for_selector("#list >> text=newcomer")


def test_a_hidden_list_sends_no_requests_and_a_stopped_one_stays_stopped(site: str) -> None:
    make_failed_job("first")
    with browser_page() as page:
        page.clock.install()
        log_in(page, site, RUNS)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.clock.run_for(60_000)
        assert requests == []
        page.evaluate("Object.defineProperty(document, 'hidden', {get: () => false})")
        with page.expect_response(f"**{RUNS}"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

        page.click("#live-toggle")
        page.goto(f"{site}{JOBS}")
        assert page.get_attribute("#live-toggle", "aria-pressed") == "true"
        assert page.inner_text("#live-toggle") == "Go on refreshing"
        requests.clear()
        page.clock.run_for(60_000)
        assert requests == []
