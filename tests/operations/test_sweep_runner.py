"""A sweep started by an operator handles the whole backlog, counted beforehand, with one audit entry."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.conf import current_settings
from punctual.jobs.models import Job, Task
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState
from punctual.operations.models import Audit
from punctual.operations.sweep_runner import REAP, RECOVER, RESEND, SETTLE, Sweep, SweepResult, run_sweep
from punctual.recovery.requester import Requester
from punctual.recovery.sweeper.resend import UNSENT_AFTER
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.factories import LEASE, a_job, a_run, a_task, an_occurrence, saved
from tests.recovery.sweeper.test_sweep import a_bit_of_everything
from tests.recovery.test_catchup import late

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-3")]

S = OccurrenceState
BY = Requester("ada", "the host died")
LATER = NOW + LEASE


@pytest.fixture(autouse=True)
def empty_queue(queue: Harness) -> Harness:
    return queue


def entries() -> list[tuple[str, int, str, bool]]:
    return list(Audit.objects.order_by("id").values_list("action", "count", "reason", "finished"))


def unsent_runs(count: int) -> None:
    for number in range(count):
        job = saved(a_job(f"job-{number}", NOW))
        saved(a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), saved(a_task(job))))


def make_late(*names: str) -> list[Job]:
    """Create jobs with three late occurrences each; planning is up to date."""
    jobs = [saved(a_job(name, NOW - timedelta(hours=1))) for name in names]
    for job in jobs:
        for minutes in (3, 2, 1):
            late(job, minutes)
    Cursor.objects.update(plan_at=NOW + timedelta(minutes=1))
    return jobs


@pytest.mark.parametrize("sweep", [RECOVER, REAP, RESEND, SETTLE])
def test_an_empty_backlog_is_counted_by_kind_and_leaves_no_entry(sweep: Sweep, queue: Harness) -> None:
    assert set(sweep.outstanding(NOW, None).values()) == {0}
    swept = run_sweep(sweep, requester=BY, now=NOW)
    assert (swept.count, set(swept.changes.values()), swept.failed, swept.more) == (0, {0}, 0, False)
    assert entries() == []
    assert queue.take() is None


def test_reap_is_a_whole_sweep_with_one_entry_for_all_kinds(queue: Harness) -> None:
    a_bit_of_everything()
    counts = REAP.outstanding(LATER, None)
    assert counts == {"lost": 1, "stale": 1, "replaced": 0, "admitted": 1, "resent": 1, "asked": 1}
    assert not Audit.objects.exists()
    changes = counts | {"admitted": 0}  # it takes the slot of the ended occurrence in the same transaction
    assert run_sweep(REAP, requester=BY, now=LATER) == SweepResult(4, changes)
    assert entries() == [("reap", 4, "the host died", True)]
    details = {"jobs": "all", "done": {kind: 1 for kind, count in changes.items() if count}}
    assert Audit.objects.get().details == details
    assert not Occurrence.objects.waiting().exists()
    assert dict(Occurrence.objects.values_list("job__name", "state"))["stale"] == "failed_stale"
    assert queue.lose_messages() == 3, "the unsent run, the admitted one, the request to settle"
    assert run_sweep(REAP, requester=BY, now=LATER).count == 0
    assert len(entries()) == 1


def test_resend_sends_unconfirmed_and_lost_messages_only(queue: Harness) -> None:
    a_bit_of_everything()
    job = saved(a_job("forgotten", NOW))
    run = a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), saved(a_task(job)), dispatched_at=NOW)
    saved(run)
    later = NOW + current_settings().lost_after
    TaskRun.objects.filter(lease_until__isnull=False).update(lease_until=later + LEASE)
    assert RESEND.outstanding(later, None) == {"unconfirmed": 1, "lost": 1}
    assert run_sweep(RESEND, requester=BY, now=later).changes == {"resent": 2}
    assert entries() == [("resend", 2, "the host died", True)]
    assert queue.lose_messages() == 2
    assert RESEND.outstanding(later, None) == {"unconfirmed": 0, "lost": 0}


def test_settle_handles_ended_occurrences_only(queue: Harness, job: Job) -> None:
    a_bit_of_everything()
    saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    assert SETTLE.outstanding(LATER, None) == {"unsettled": 1, "hooks": 1}
    assert run_sweep(SETTLE, requester=BY, now=LATER).changes == {"asked": 2}
    assert entries() == [("settle", 2, "the host died", True)]
    assert {name for name, _ in (queue.take() or ("", 0), queue.take() or ("", 0))} == {"punctual.settle"}


@pytest.mark.req("REC-1")
def test_recover_catches_up_one_job_or_all() -> None:
    first, second = make_late("first", "second")
    assert RECOVER.outstanding(NOW, None) == {"jobs": 2, "to_plan": 0, "late": 6}
    assert RECOVER.outstanding(NOW, first) == {"jobs": 1, "to_plan": 0, "late": 3}
    swept = run_sweep(RECOVER, requester=BY, now=NOW, job=first)
    assert (swept.count, swept.changes["recovered"], swept.changes["missed"]) == (3, 1, 2)
    assert set(Occurrence.objects.filter(job=second).values_list("state", "cause")) == {
        ("pending", "schedule")
    }
    assert run_sweep(RECOVER, requester=BY, now=NOW).count == 3
    assert entries() == [("recover", 3, "the host died", True)] * 2
    entries_details = Audit.objects.order_by("id").values_list("details", flat=True)
    assert [{**details, "done": 0} for details in entries_details] == [
        {"job": "first", "done": 0},
        {"jobs": "all", "done": 0},
    ]


@pytest.mark.req("REC-1")
def test_recover_of_one_job_leaves_other_jobs_to_the_beats() -> None:
    first, _ = (saved(a_job(name, NOW)) for name in ("first", "second"))
    Cursor.objects.update(plan_at=NOW)
    assert RECOVER.outstanding(NOW, first) == {"jobs": 1, "to_plan": 1, "late": 0}
    assert run_sweep(RECOVER, requester=BY, now=NOW, job=first).changes["planned"] == 1
    assert set(Occurrence.objects.values_list("job__name", flat=True)) == {"first"}
    assert RECOVER.outstanding(NOW, None)["to_plan"] == 1
    assert entries() == [("recover", 0, "the host died", True)], "planned; nothing was late"


def test_messages_refused_by_the_broker_are_counted_and_leave_no_entry() -> None:
    unsent_runs(1)
    ended = saved(an_occurrence(saved(a_job("ended", NOW)), NOW, S.FAILED, finalized_at=None))
    with broker_down():
        assert run_sweep(RESEND, requester=BY, now=LATER) == SweepResult(0, {"resent": 0}, failed=1)
        assert run_sweep(SETTLE, requester=BY, now=LATER) == SweepResult(0, {"asked": 0}, failed=1)
    assert entries() == []
    ended.refresh_from_db()
    assert ended.finalized_at is None
    assert run_sweep(RESEND, requester=BY, now=LATER).count == 1, (
        "the message is sent once the broker is back"
    )


def test_many_batches_make_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("punctual.recovery.sweeper.resend.resend.__kwdefaults__", {"limit": 2})
    unsent_runs(5)
    seen: list[int] = []
    assert run_sweep(RESEND, requester=BY, now=LATER, progress=seen.append).count == 5
    assert seen == [2, 2, 1, 0]
    assert entries() == [("resend", 5, "the host died", True)]


def test_a_limit_stops_the_sweep_and_reports_that_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("punctual.recovery.sweeper.resend.resend.__kwdefaults__", {"limit": 2})
    unsent_runs(5)
    assert run_sweep(RESEND, requester=BY, now=LATER, limit=3) == SweepResult(4, {"resent": 4}, more=True)
    assert RESEND.outstanding(LATER, None)["unconfirmed"] == 1
    assert run_sweep(RESEND, requester=BY, now=LATER, limit=1) == SweepResult(1, {"resent": 1}), (
        "the last message, and no more is left"
    )


def test_counting_takes_the_same_queries_for_many_rows(job: Job, task: Task) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as asked:
            for sweep in (RECOVER, REAP, RESEND, SETTLE):
                sweep.outstanding(NOW + UNSENT_AFTER, None)
        return len(asked)

    saved(an_occurrence(job, NOW, S.QUEUED))
    few = cost()
    unsent_runs(10)
    make_late("first", "second", "third")
    assert cost() == few
