"""What operators do in a real browser: find failures, pause, resume, replay, watch."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User

from punctual.jobs.clock import database_now
from punctual.jobs.models import Job
from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from tests.browser.test_journey import PASSWORD, browser_page, pytestmark, site
from tests.console.fixtures import groups, pages
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task
from tests.console.ledgers import fill
from tests.console.paths import change_pages, lists
from tests.console.paths import pages as paths_of_rows

__all__ = ["groups", "pages", "pytestmark", "site"]

MINUTE = timedelta(minutes=1)
INLINE_SCRIPT = """() => {
    document.addEventListener("securitypolicyviolation", () => { window.refused = true; });
    const button = document.createElement("button");
    button.setAttribute("onclick", "window.ran = true");
    document.body.append(button);
    button.click();
}"""
TROUBLE = "OSError: No space left on device"


def log_in(page: Any, site: str, path: str, *, group: str = "") -> None:
    """Log in as a superuser, or as a member of `group`."""
    if group:
        user = User.objects.create_user("operator", password=PASSWORD, is_staff=True)
        user.groups.add(Group.objects.get(name=group))
    else:
        User.objects.create_superuser("operator", password=PASSWORD)
    page.goto(f"{site}{path}")
    page.fill("#id_username", "operator")
    page.fill("#id_password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_selector("#pulse")


def failed_story() -> Occurrence:
    now = database_now()
    job = make_job("nightly etl", now - timedelta(days=1), schedule="TZ=Europe/Berlin 0 2 * * *")
    occurrence = make_occurrence(
        job, now - 5 * MINUTE, OccurrenceState.FAILED, reason="failed after 1 attempt"
    )
    run = make_run(
        occurrence, make_task(job, "load"), RunState.DLQ, error=TROUBLE, attempts_made=1, fingerprint="d" * 16
    )
    facts = {"error": TROUBLE, "traceback": f"Traceback …\n{TROUBLE}", "log": "copying 1204 orders"}
    make_attempt(run, 0, AttemptState.FAILED, **facts)
    return occurrence


def test_a_failed_run_is_found_from_the_counters_and_its_cause_read(site: str) -> None:
    failed_story()
    with browser_page() as page:
        log_in(page, site, "/admin/")
        assert "nightly etl" in page.inner_text("section:has(h2:text('Failing jobs'))")
        page.click("#pulse a[data-counter=dead]")
        page.click("table.errors tbody th a")
        page.click("#result_list tbody a >> nth=0")
        page.click("section:has(h2:text('Attempts')) a:has-text('attempt_')")
        page.wait_for_url("**/attempt/*/change/")
        assert TROUBLE in page.inner_text("#content-main")
        assert "copying 1204 orders" in page.inner_text("#content-main")
        assert not page.is_visible("text=Traceback …")
        page.click("summary:has-text('Show the traceback')")
        assert page.is_visible("text=Traceback …")


def test_why_it_ran_and_how_long_is_on_its_page(site: str) -> None:
    occurrence = failed_story()
    with browser_page() as page:
        log_in(page, site, f"/admin/punctual/occurrence/{occurrence.pk}/change/")
        why = page.inner_text("section:has(h2:text('Why'))")
        assert "at 02:00 every day, Europe/Berlin time" in why
        assert "failed after 1 attempt" in why
        lanes = page.locator(".gantt svg[aria-label^='load:']")
        assert "attempt 1: failed" in (lanes.get_attribute("aria-label") or "")


@pytest.mark.usefixtures("groups")
def test_a_job_is_paused_and_resumed_with_a_choice_for_its_backlog(site: str) -> None:
    job = make_job("nightly etl", database_now())
    make_task(job)
    with browser_page() as page:
        log_in(page, site, f"/admin/punctual/job/{job.pk}/change/", group="Punctual: operators")
        page.click("a:has-text('Pause…')")
        page.fill("#id_reason", "the disk is replaced")
        page.click("#content-main button:has-text('Pause')")
        page.wait_for_selector("text=is paused")
        job.refresh_from_db()
        assert job.paused_at is not None
        for minute in range(3):
            at = job.paused_at + minute * timedelta(milliseconds=1)
            make_occurrence(
                job, at, OccurrenceState.SKIPPED, reason="paused", started_at=None, finished_at=at
            )
        page.click("a:has-text('Resume…')")
        assert page.inner_text("dt:text('instants of the pause') + dd") == "3"
        page.check("input[name=backlog][value=last]")
        page.click("#content-main button:has-text('Resume')")
        page.wait_for_selector("text=backlog: last")
    assert not Job.objects.get().paused
    assert Occurrence.objects.filter(parent__isnull=False).count() == 1


@pytest.mark.usefixtures("groups")
def test_a_failed_occurrence_is_replayed_and_the_browser_goes_to_the_replay(site: str) -> None:
    occurrence = failed_story()
    with browser_page() as page:
        path = f"/admin/punctual/occurrence/{occurrence.pk}/change/"
        log_in(page, site, path, group="Punctual: operators")
        page.click("a:has-text('Replay what failed…')")
        assert page.inner_text("[data-count]") == "1"
        page.fill("#id_reason", "the disk was replaced")
        page.click("#content-main button:has-text('Replay what failed')")
        page.wait_for_selector("text=Replay what failed: done.")
        assert "the disk was replaced" in page.inner_text("section:has(h2:text('Why'))")
        page.click("section:has(h2:text('Lineage')) a")
        page.wait_for_url(f"**{path}")
    made = Occurrence.objects.get(cause="replay")
    assert made.parent_id == occurrence.pk
    assert LogEntry.objects.get().change_message == "the disk was replaced"


def test_a_running_occurrence_is_canceled_after_a_question(site: str) -> None:
    now = database_now()
    job = make_job("nightly etl", now)
    running = make_occurrence(job, now, OccurrenceState.RUNNING)
    make_run(running, make_task(job), RunState.SCHEDULED)
    with browser_page() as page:
        log_in(page, site, f"/admin/punctual/occurrence/{running.pk}/change/")
        page.click("a:has-text('Cancel…')")
        assert "Nothing has happened yet" in page.inner_text("#content-main")
        assert Occurrence.objects.get().state == OccurrenceState.RUNNING
        page.fill("#id_reason", "the wrong file")
        page.click("#content-main button:has-text('Cancel 1')")
        page.wait_for_selector("text=Cancel: done.")
    assert Occurrence.objects.get().state == OccurrenceState.CANCELED


def test_dead_letters_are_purged_after_their_count_was_shown(site: str) -> None:
    failed_story()
    with browser_page() as page:
        log_in(page, site, "/admin/")
        page.click("#pulse a[data-counter=dead]")
        page.wait_for_url("**/dead-letters/")
        assert TROUBLE in page.inner_text("#content-main")
        page.click("td a:has-text('Purge…')")
        assert page.inner_text("[data-count]") == "1"
        page.fill("#id_reason", "the disk was replaced")
        page.click("#content-main button:has-text('Purge 1')")
        page.wait_for_selector("text=1 dead letter purged.")
        assert page.inner_text("#pulse [data-counter=dead] b") == "0"


@pytest.mark.usefixtures("groups")
def test_a_reader_finds_no_way_to_act(site: str) -> None:
    occurrence = failed_story()
    with browser_page() as page:
        log_in(page, site, f"/admin/punctual/job/{occurrence.job_id}/change/", group="Punctual: read-only")
        for word in ("Run now", "Pause", "Stop"):
            assert page.locator(f"#content-main button:has-text('{word}')").count() == 0
        assert page.locator("a:has-text('Edit…')").count() == 0
        answer = page.evaluate(
            """async (path) => (await fetch(path, {method: "POST", headers: {
                "X-CSRFToken": document.cookie.match(/csrftoken=([^;]+)/)[1]}})).status""",
            f"/admin/job/{occurrence.job_id}/run/",
        )
        assert answer == 403
    assert Occurrence.objects.count() == 1


def test_the_overview_shows_a_new_run_without_a_reload_and_sends_no_requests_while_hidden(site: str) -> None:
    now = database_now()
    job = make_job("nightly etl", now)
    with browser_page() as page:
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.clock.install()
        log_in(page, site, "/admin/")
        assert "Nothing is running" in page.inner_text("section:has(h2:text('Under way'))")
        make_run(make_occurrence(job, now, OccurrenceState.RUNNING), make_task(job), RunState.RUNNING)
        page.clock.run_for(6_000)
        page.wait_for_selector("section:has(h2:text('Under way')) a:has-text('nightly etl')")
        assert page.inner_text("#pulse [data-counter=running] b") == "1"

        hide = "document.dispatchEvent(new Event('visibilitychange'))"
        page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})")
        page.evaluate(hide)
        requests.clear()
        page.clock.run_for(120_000)
        assert requests == []
        page.evaluate("Object.defineProperty(document, 'hidden', {get: () => false})")
        with page.expect_request("**/admin/pulse/"):
            page.evaluate(hide)


def test_the_page_of_a_running_occurrence_refreshes_until_it_finishes(site: str) -> None:
    now = database_now()
    job = make_job("nightly etl", now)
    running = make_occurrence(job, now, OccurrenceState.RUNNING)
    with browser_page() as page:
        page.clock.install()
        log_in(page, site, f"/admin/punctual/occurrence/{running.pk}/change/")
        assert "RUNNING" in page.inner_text("#content-main").upper()
        ended = {"state": OccurrenceState.COMPLETED, "finished_at": now + MINUTE, "holds_slot": False}
        Occurrence.objects.update(**ended)
        page.clock.run_for(6_000)
        page.wait_for_selector("#content-main .badge:has-text('completed')")
        assert page.locator("[data-into]").count() == 0, "it asks no more"


def test_refreshing_can_be_stopped_by_keyboard(site: str) -> None:
    with browser_page() as page:
        page.clock.install()
        log_in(page, site, "/admin/")
        page.focus("#live-toggle")
        page.keyboard.press("Enter")
        assert page.get_attribute("#live-toggle", "aria-pressed") == "true"
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.clock.run_for(60_000)
        assert requests == []


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_window(site: str, width: int, scheme: str) -> None:
    now = database_now()
    fill("odd", now)
    unbroken = make_job("x" * 200, now, origin="admin", paused_at=now)
    run = make_run(make_occurrence(unbroken, now, OccurrenceState.RUNNING), make_task(unbroken, "y" * 200),
                   RunState.RUNNING, error="z" * 200)  # fmt: skip
    make_attempt(run, error="z" * 200, worker="celery@a-host-with-a-name.example.org/4711")
    paths = [*lists().values(), *paths_of_rows().values(), *change_pages().values()]
    with browser_page() as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        log_in(page, site, "/admin/")
        for path in paths:
            page.goto(f"{site}{path}")
            over = page.evaluate(
                """Math.max(...[document.documentElement, ...document.querySelectorAll(".rows-wrap")]
                    .map((one) => one.scrollWidth - one.clientWidth))"""
            )
            assert over <= 0, f"{path}, or a table on it, is {over} pixels too wide at {width}"


@pytest.mark.usefixtures("groups")
def test_a_range_of_the_past_is_filled_in_after_its_count_was_shown(site: str) -> None:
    now = database_now().replace(minute=0, second=0, microsecond=0)
    job = make_job("nightly etl", now - timedelta(days=9), schedule="0 * * * *")
    make_task(job)
    for hour in (2, 3):
        make_occurrence(job, now - timedelta(hours=hour))
    Cursor.objects.update_or_create(job=job, defaults={"settled_until": now})
    with browser_page() as page:
        log_in(page, site, f"/admin/punctual/job/{job.pk}/change/", group="Punctual: operators")
        page.click("a:has-text('Backfill…')")
        page.fill("input[name=since]", f"{now - timedelta(hours=5):%Y-%m-%dT%H:%M}")
        page.fill("input[name=until]", f"{now:%Y-%m-%dT%H:%M}")
        page.click("button:has-text('Show what it would do')")
        assert page.inner_text("[data-count]") == "4"
        assert not Occurrence.objects.filter(cause="backfill").exists()
        page.fill("#id_reason", "the source was late")
        page.click("button:has-text('Backfill 4')")
        page.wait_for_selector("text=4 occurrences created")
    assert Occurrence.objects.filter(cause="backfill", request_reason="the source was late").count() == 4
    assert LogEntry.objects.get().change_message == "the source was late"


@pytest.mark.usefixtures("groups")
def test_late_occurrences_are_caught_up_from_one_page_with_a_reason(site: str) -> None:
    now = database_now()
    job = make_job("nightly etl", now - timedelta(days=1))
    make_task(job)
    late = make_occurrence(job, now - 9 * MINUTE, OccurrenceState.PENDING, late_at=now - 8 * MINUTE)
    Cursor.objects.update_or_create(job=job, defaults={"settled_until": now, "plan_at": now + 9 * MINUTE})
    with browser_page() as page:
        log_in(page, site, "/admin/", group="Punctual: operators")
        page.click("nav a:has-text('Recovery')")
        assert "occurrences that were not fired in time: 1" in page.inner_text("tr[data-sweep='Catch up']")
        assert "nothing" in page.inner_text("tr[data-sweep=Reap]")
        page.click("a:has-text('Catch up…')")
        assert page.inner_text("[data-count]") == "1"
        page.click("button:has-text('Catch up 1')")
        assert page.evaluate("document.querySelector('#id_reason').validity.valueMissing"), "not sent"
        page.evaluate("document.querySelector('#id_reason').required = false")
        page.click("button:has-text('Catch up 1')")
        page.wait_for_selector("text=Please give a reason")
        late.refresh_from_db()
        assert late.cause == "schedule"
        page.fill("#id_reason", "the beats were off")
        page.click("button:has-text('Catch up 1')")
        page.wait_for_selector("text=1 run late")
    late.refresh_from_db()
    assert late.cause == "recovery"
    assert LogEntry.objects.get().change_message == "the beats were off"


def test_jobs_chosen_in_the_list_are_paused_together_after_their_count_was_shown(site: str) -> None:
    now = database_now()
    for name in ("first", "second", "third"):
        make_task(make_job(name, now))
    with browser_page() as page:
        log_in(page, site, "/admin/punctual/job/")
        page.check("#action-toggle")
        assert page.locator("input.action-select:checked").count() == 3
        page.uncheck("input.action-select >> nth=2")
        page.select_option("select[name=action]", "pause")
        page.click("#changelist-actions-wrapper button[type=submit]")
        assert page.inner_text("[data-count]") == "2"
        assert not Job.objects.exclude(paused_at=None).exists(), "nothing has happened yet"
        page.fill("#id_reason", "the disk is replaced")
        page.click("#content-main button:has-text('Pause 2')")
        page.wait_for_selector("text=2 jobs paused.")
    assert {job.name for job in Job.objects.all() if job.paused} == {"first", "second"}
    assert LogEntry.objects.values_list("change_message", flat=True)[0] == "Paused: the disk is replaced"


@pytest.mark.req("OPS-7")
def test_no_page_needs_an_inline_script(site: str) -> None:
    """`browser_page` fails on each violation of the policy; theme, charts and our scripts go on working."""
    fill("small", database_now())
    paths = [*lists().values(), *paths_of_rows().values(), *change_pages().values()]
    with browser_page() as page:
        log_in(page, site, "/admin/")
        for path in [*paths, "/admin/auth/user/", "/admin/django_celery_beat/periodictask/"]:
            page.goto(f"{site}{path}")
            assert page.evaluate("typeof Alpine") == "object", path
        page.goto(f"{site}/admin/dead-letters/")
        page.select_option("select[name=older]", "7d")
        page.wait_for_url("**older=7d*")


def run_inline_script(site: str) -> None:
    with browser_page() as page:
        log_in(page, site, "/admin/")
        page.evaluate(INLINE_SCRIPT)
        page.wait_for_function("window.refused")
        assert page.evaluate("window.ran") is None


@pytest.mark.req("OPS-7")
def test_an_inline_script_does_not_run_and_is_reported(site: str) -> None:
    with pytest.raises(AssertionError, match="Content Security Policy"):
        run_inline_script(site)
