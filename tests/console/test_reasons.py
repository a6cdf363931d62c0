"""Whoever acts on the past says why: without a reason nothing is done, and the page says what is missing."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from jobs.clock import database_now
from occurrences.models import Cursor, Occurrence, TaskRun
from occurrences.states import OccurrenceState, RunState
from recovery.models import Audit
from tests.console.rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2"), pytest.mark.req("REC-4")]

HOUR = timedelta(hours=1)
S = OccurrenceState
ACTS = [
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
    """A job with something for each of them to do."""
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


def wish() -> dict[str, str]:
    at = database_now()
    return {"since": f"{at - 90 * HOUR:%Y-%m-%dT%H:%M}", "until": f"{at:%Y-%m-%dT%H:%M}", "part": "all"}


def ledger() -> list[object]:
    return [list(model.objects.order_by("pk").values()) for model in (Occurrence, TaskRun, Audit, LogEntry)]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (None, "reason=&#x27;&#x27;: expected a few words that say why"),
        ("   ", "reason=&#x27;&#x27;: expected a few words that say why"),
        ("x" * 501, "expected at most 500 characters, not 501"),
    ],
)
def test_without_a_reason_nothing_is_done(
    root: Client, addresses: dict[str, str], act: str, reason: str | None, told: str
) -> None:
    before = ledger()
    typed = wish() | ({} if reason is None else {"reason": reason})
    answer = root.post(f"/admin/{act.format(**addresses)}", typed)
    assert answer.status_code == 200, "the page again, not the next one"
    text = answer.content.decode()
    assert told in text
    assert 'id="id_reason"' in text
    assert "data-count" in text
    assert ledger() == before


@pytest.mark.parametrize("act", ACTS)
def test_with_a_reason_it_is_done_and_the_reason_kept(
    root: Client, addresses: dict[str, str], act: str
) -> None:
    answer = root.post(f"/admin/{act.format(**addresses)}", wish() | {"reason": " the disk was full "})
    assert answer.status_code == 302
    (entry,) = Audit.objects.all()
    assert (entry.reason, entry.requested_by, entry.finished) == ("the disk was full", "admin", True)
    assert entry.count > 0
    assert LogEntry.objects.get().change_message == "the disk was full"


def test_what_was_typed_is_still_there_and_the_wish_goes_on(root: Client, addresses: dict[str, str]) -> None:
    """The second press, with a reason, does what the first one asked for."""
    path = f"/admin/job/{addresses['job']}/replay/"
    text = root.post(path, wish() | {"reason": ""}).content.decode()
    held = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text[text.index("data-count") :]))
    assert set(held) >= {"since", "until", "part", "key", "seen"}
    assert root.post(path, held | {"reason": "again"}).status_code == 302
    assert Audit.objects.get().count == Occurrence.objects.filter(cause="replay").count() == 3
