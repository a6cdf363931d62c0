"""Actions on the past need a reason: without one nothing is done, and the page says what is missing."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import resolve

from punctual.jobs.clock import database_now
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.action_registry import find_action
from punctual.operations.models import Audit, AuditedAction
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("REC-4")]

HOUR = timedelta(hours=1)
S = OccurrenceState
ACTIONS = [
    "occurrence/{failed}/replay/",
    "occurrence/{failed}/replay-failed/",
    "occurrence/{running}/cancel/",
    "occurrence/{pending}/skip/",
    "job/{job}/backfill/",
    "job/{job}/replay/",
    "job/{job}/recover/",
    "job/{job}/prune/",
    "prune/",
    "dead-letters/replay/",
    "dead-letters/purge/",
    "chores/recover/",
    "chores/reap/",
    "chores/resend/",
    "chores/settle/",
]


@pytest.fixture
def addresses() -> dict[str, str]:
    """A job with something to do for each action."""
    at = (database_now() - 50 * HOUR).replace(minute=0, second=0, microsecond=0)
    job = make_job("etl", at - 50 * HOUR, schedule="0 * * * *", config={"retention": "1h"})
    task = make_task(job)
    Cursor.objects.update_or_create(job=job, defaults={"settled_until": at, "plan_at": at + 900 * HOUR})
    failed = make_occurrence(job, at, S.FAILED, finalized_at=at)
    make_run(failed, task, RunState.DLQ)
    make_occurrence(job, at - HOUR, S.COMPLETED, finalized_at=at)
    make_occurrence(job, at - 2 * HOUR, S.FAILED, finalized_at=None)
    running = make_occurrence(job, at - 3 * HOUR, S.RUNNING)
    make_run(running, task, RunState.SCHEDULED, dispatched_at=None)
    pending = make_occurrence(job, at - 4 * HOUR, S.PENDING, late_at=at)
    names = {"job": job, "failed": failed, "running": running, "pending": pending}
    return {name: str(row.pk) for name, row in names.items()}


def values() -> dict[str, str]:
    at = database_now()
    return {"since": f"{at - 90 * HOUR:%Y-%m-%dT%H:%M}", "until": f"{at:%Y-%m-%dT%H:%M}", "part": "all"}


def audited_action(path: str) -> AuditedAction | None:
    match = resolve(path)
    action = find_action(match.kwargs["target"].scope, match.kwargs["name"])
    return action.audit if action else None


def ledger() -> list[object]:
    return [list(model.objects.order_by("pk").values()) for model in (Occurrence, TaskRun, Audit, LogEntry)]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        (None, "Please give a reason"),
        ("   ", "Please give a reason"),
        ("x" * 501, "expected at most 500 characters, not 501"),
    ],
)
def test_without_a_reason_nothing_is_done(
    root: Client, addresses: dict[str, str], action: str, reason: str | None, problem: str
) -> None:
    before = ledger()
    typed = values() | ({} if reason is None else {"reason": reason})
    response = root.post(f"/admin/{action.format(**addresses)}", typed)
    assert response.status_code == 200, "the same page again"
    text = response.content.decode()
    assert problem in text
    assert 'id="id_reason"' in text
    assert "data-count" in text
    assert ledger() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_with_a_reason_the_action_is_done_and_the_reason_kept(
    root: Client, addresses: dict[str, str], action: str
) -> None:
    response = root.post(f"/admin/{action.format(**addresses)}", values() | {"reason": " the disk was full "})
    assert response.status_code == 302
    (entry,) = Audit.objects.all()
    assert (entry.reason, entry.requested_by, entry.finished) == ("the disk was full", "admin", True)
    assert entry.count > 0
    assert entry.action == audited_action(f"/admin/{action.format(**addresses)}")
    assert LogEntry.objects.get().change_message == "the disk was full"


def test_a_page_without_reason_keeps_the_values_of_its_preview(
    root: Client, addresses: dict[str, str]
) -> None:
    """The second confirmation, with a reason, does what the first one requested."""
    path = f"/admin/job/{addresses['job']}/replay/"
    text = root.post(path, values() | {"reason": ""}).content.decode()
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text[text.index("data-count") :]))
    assert set(hidden) >= {"since", "until", "part", "key", "seen"}
    assert root.post(path, hidden | {"reason": "again"}).status_code == 302
    assert Audit.objects.get().count == Occurrence.objects.filter(cause="replay").count() == 3
