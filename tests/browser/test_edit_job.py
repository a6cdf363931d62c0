"""An operator changes a schedule in a real browser: preview first, then confirmation."""

import pytest
from django.contrib.auth.models import User

from punctual.jobs.models import JobVersion
from tests.browser.test_journey import PASSWORD, browser_page, pytestmark, site
from tests.console.definitions.editable_jobs import FUNCTIONS, functions, saved
from tests.console.fixtures import pages

__all__ = ["functions", "pages", "pytestmark", "site"]


@pytest.mark.req("JOB-6")
@pytest.mark.usefixtures("functions")
def test_a_schedule_is_changed_after_its_preview(site: str) -> None:
    User.objects.create_superuser("operator", password=PASSWORD)
    job = saved("nightly etl", "TZ=Europe/Berlin 0 2 * * *")

    with browser_page() as page:
        page.goto(f"{site}/admin/punctual/job/{job.pk}/change/")
        page.fill("#id_username", "operator")
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")
        page.click("a:has-text('Edit…')")

        page.fill("#id_schedule", "TZ=Europe/Berlin 61 5 * * *")
        page.click("button:has-text('Add a task')")
        page.fill("#id_tasks-1-name", "load")
        page.select_option("#id_tasks-1-function", FUNCTIONS[1])
        page.fill("#id_reason", "the source is late")
        page.click("button:has-text('Show what changes')")
        assert "61" in page.inner_text(".errors")

        page.fill("#id_schedule", "TZ=Europe/Berlin 0 5 * * *")
        page.click("button:has-text('Show what changes')")
        definition = page.inner_text("section:has(h2:text('Definition'))")
        assert "TZ=Europe/Berlin 0 2 * * *" in definition
        assert "TZ=Europe/Berlin 0 5 * * *" in definition
        planned = page.inner_text("section:has(h2:text('Planned occurrences'))")
        assert "02:00:00 Europe/Berlin" in planned
        assert "05:00:00 Europe/Berlin" in planned
        assert "Nothing is changed yet" in page.inner_text("#content-main")

        page.click("button:has-text('Confirm')")
        page.wait_for_url("**/change/")
        assert "version 2" in page.inner_text("#main")
        page.click("a:has-text('version 2')")
        assert "the source is late" in page.inner_text("#content-main")

    job.refresh_from_db()
    assert (job.schedule, job.tasks.count()) == ("TZ=Europe/Berlin 0 5 * * *", 2)
    assert JobVersion.objects.get(job=job, number=2).author == "operator"


@pytest.mark.req("JOB-6")
@pytest.mark.usefixtures("functions")
def test_a_schedule_is_explained_while_it_is_typed(site: str) -> None:
    User.objects.create_superuser("operator", password=PASSWORD)
    job = saved("nightly etl", "TZ=Europe/Berlin 0 2 * * *")

    with browser_page() as page:
        page.goto(f"{site}/admin/punctual/job/{job.pk}/edit/")
        page.fill("#id_username", "operator")
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_selector("#schedule-live li:has-text('Europe/Berlin')")
        page.fill("#id_schedule", "0 99 * * *")
        page.wait_for_selector("#schedule-live mark:text('99')")
        assert page.locator("#schedule-live .fires li").count() == 0
        page.fill("#id_schedule", "0 9 * * *")
        page.wait_for_selector("#schedule-live .fine:has-text('09:00')")
        assert page.locator("#schedule-live .fires li").count() == 25
    assert JobVersion.objects.filter(job=job).count() == 1
