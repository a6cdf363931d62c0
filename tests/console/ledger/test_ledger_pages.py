"""The ledger is read-only in the console; a state is shown by word, colour and shape."""

import re
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from punctual.conf import current_settings
from punctual.console.kit.badges import STATE_LOOKS, state_badge
from punctual.execution.ending.hook_calls import claim, end_try, register
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.models import HookCall
from punctual.occurrences.models import Cause
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from tests.console.fixtures import Viewer, page
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_story, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

KINDS = ["occurrence", "taskrun", "attempt"]
DAY = timedelta(days=1)


def listed_ids(client: Client, kind: str, query: str = "") -> set[str]:
    """The ids of the rows a list shows."""
    text = page(client, f"/admin/punctual/{kind}/?{query}")
    return set(re.findall(rf"/admin/punctual/{kind}/([0-9a-f-]{{36}})/change/", text))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_cannot_be_added_changed_or_deleted(root: Client, now: datetime, kind: str) -> None:
    row: Any = dict(zip(KINDS, make_story("etl", now)[1:], strict=True))[kind]
    base = f"/admin/punctual/{kind}/"
    assert root.get(f"{base}add/").status_code == 403
    assert root.post(f"{base}{row.pk}/change/", {"state": "failed"}).status_code == 403
    assert root.post(f"{base}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    text = page(root, f"{base}{row.pk}/change/")
    assert 'name="_save"' not in text
    assert row.display_id in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_needs_the_permission_to_view(viewer: Viewer, kind: str) -> None:
    client = viewer("punctual.view_job")
    assert client.get(f"/admin/punctual/{kind}/").status_code == 403


def test_occurrences_are_filtered_by_state_job_cause_and_date(root: Client, now: datetime) -> None:
    job, other = make_job("etl", now), make_job("other", now)
    failed = make_occurrence(job, now, OccurrenceState.FAILED)
    manual = make_occurrence(other, now - DAY, cause=Cause.MANUAL)
    old = make_occurrence(job, now - 30 * DAY)
    expected = {
        "state__exact=failed": {failed},
        f"job__id__exact={job.pk}": {failed, old},
        "cause__exact=manual": {manual},
        "scheduled_for_from_0=2026-01-01&scheduled_for_from_1=00:00": {failed, manual},
        "scheduled_for_from_0=2026-01-04&scheduled_for_to_0=2026-01-04": {manual},
        "scheduled_for_to_0=2026-01-05&scheduled_for_to_1=11:59": {manual, old},
        "scheduled_for_from_0=2026-02-30": {failed, manual, old},
    }
    for query, rows in expected.items():
        assert listed_ids(root, "occurrence", query) == {str(row.pk) for row in rows}, query


def test_runs_and_attempts_are_filtered_by_their_parent(root: Client, now: datetime) -> None:
    job, occurrence, run, attempt = make_story("etl", now)
    make_story("other", now)
    assert listed_ids(root, "taskrun", f"occurrence__id__exact={occurrence.pk}") == {str(run.pk)}
    assert listed_ids(root, "taskrun", f"occurrence__job__id__exact={job.pk}") == {str(run.pk)}
    assert listed_ids(root, "attempt", f"run__id__exact={run.pk}") == {str(attempt.pk)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_found_by_its_id_or_by_its_jobs_name(root: Client, now: datetime, kind: str) -> None:
    row: Any = dict(zip(KINDS, make_story("nightly etl", now)[1:], strict=True))[kind]
    make_story("other", now)
    for term in (row.display_id, str(row.pk), "NIGHTLY"):
        assert listed_ids(root, kind, f"q={term}") == {str(row.pk)}
    assert listed_ids(root, kind, "q=nothing-like-it") == set()


@pytest.mark.parametrize("query", ["p=0", "p=x", "p=99999999999999999999", "job__id__exact=x"])
def test_an_invalid_query_string_is_no_server_error(root: Client, now: datetime, query: str) -> None:
    make_story("etl", now)
    assert root.get(f"/admin/punctual/occurrence/?{query}", follow=True).status_code == 200


def test_the_newest_rows_come_first_on_every_level(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    task = make_task(job)
    for kind in KINDS:
        assert listed_ids(root, kind) == set()
    for days in (2, 0, 1):
        make_attempt(make_run(make_occurrence(job, now - days * DAY), task))
    for kind in KINDS:
        text = page(root, f"/admin/punctual/{kind}/")
        days_shown = re.findall(r"2026-01-0(\d) 12:00:00 UTC</time>", text)
        assert days_shown == sorted(days_shown, reverse=True), kind
        assert set(days_shown) == {"5", "4", "3"}


def test_times_are_shown_on_the_clock_of_the_job(root: Client, now: datetime) -> None:
    job = make_job("etl", now, schedule="TZ=Europe/Berlin 0 2 * * *")
    make_occurrence(job, now)
    text = page(root, "/admin/punctual/occurrence/")
    assert "2026-01-05 12:00:00 UTC" in text
    assert "2026-01-05 13:00:00 Europe/Berlin" in text


def test_every_state_has_a_badge_of_its_own() -> None:
    for states in (OccurrenceState, RunState, AttemptState):
        looks = [STATE_LOOKS[state.value] for state in states]
        assert len(set(looks)) == len(looks), states
        for state in states:
            assert str(state.label) in state_badge(state)


@pytest.mark.req("JOB-9")
def test_the_calls_of_hooks_are_on_the_page_of_their_occurrence_and_in_its_command(
    root: Client, now: datetime
) -> None:
    hooks = {"on_start": ["app.announce"], "on_complete": ["app.notify", "app.page"]}
    row = make_occurrence(make_job("etl", now), now, config=hooks, finalized_at=None)
    register([row], now=now)
    calls = {call.hook: call for call in HookCall.objects.all()}
    token = claim(calls["app.notify"], hung=False, worker="w", now=now, settings=current_settings())
    assert token is not None
    end_try(calls["app.notify"].id, token, Result(Ending.FATAL, error="no such channel"), now=now)
    text = page(root, f"/admin/punctual/occurrence/{row.pk}/change/")
    for shown in ("app.notify", "failed", "no such channel", "app.page", "waiting"):
        assert shown in text
    out = StringIO()
    call_command("punctual", "occurrences", "show", row.display_id, stdout=out)
    assert out.getvalue().splitlines()[-2:] == [
        "on_complete app.notify  failed  tries 1  no such channel",
        "on_complete app.page  waiting  tries 0",
    ]
