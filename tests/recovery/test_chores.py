"""A chore asked for by a person: everything outstanding is done, counted first, and told in one entry."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from execution.limits import limits
from jobs.models import Job, Task
from occurrences.models import Cursor, Occurrence, TaskRun
from occurrences.states import OccurrenceState
from recovery.audit import Asked
from recovery.chores import REAP, RECOVER, RESEND, SETTLE, Chore, Performed, perform
from recovery.models import Audit
from recovery.resend import UNSENT_AFTER
from tests.execution.conftest import NOW, broker_down
from tests.harness import Harness
from tests.occurrences.ledger import LEASE, a_job, a_run, a_task, an_occurrence, saved
from tests.recovery.test_catchup import late
from tests.recovery.test_sweep import a_bit_of_everything

pytestmark = [pytest.mark.django_db, pytest.mark.req("REC-3")]

S = OccurrenceState
BY = Asked("ada", "the host died")
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


def behind(*names: str) -> list[Job]:
    """Three late occurrences each; planning is up to date."""
    jobs = [saved(a_job(name, NOW - timedelta(hours=1))) for name in names]
    for job in jobs:
        for minutes in (3, 2, 1):
            late(job, minutes)
    Cursor.objects.update(plan_at=NOW + timedelta(minutes=1))
    return jobs


@pytest.mark.parametrize("chore", [RECOVER, REAP, RESEND, SETTLE])
def test_nothing_to_do_is_told_by_kind_and_leaves_no_entry(chore: Chore, queue: Harness) -> None:
    assert set(chore.outstanding(NOW, None).values()) == {0}
    done = perform(chore, asked=BY, now=NOW)
    assert (done.count, set(done.done.values()), done.failed, done.more) == (0, {0}, 0, False)
    assert entries() == []
    assert queue.take() is None


def test_a_reap_is_a_whole_sweep_counted_first_with_one_entry_of_every_kind(queue: Harness) -> None:
    a_bit_of_everything()
    found = REAP.outstanding(LATER, None)
    assert found == {"lost": 1, "stale": 1, "replaced": 0, "admitted": 1, "resent": 1, "asked": 1}
    assert not Audit.objects.exists()
    done = found | {"admitted": 0}  # it took the slot of what was ended, in the same moment
    assert perform(REAP, asked=BY, now=LATER) == Performed(4, done)
    assert entries() == [("reap", 4, "the host died", True)]
    told = {"jobs": "all", "done": {kind: 1 for kind, count in done.items() if count}}
    assert Audit.objects.get().details == told
    assert not Occurrence.objects.waiting().exists()
    assert dict(Occurrence.objects.values_list("job__name", "state"))["stale"] == "failed_stale"
    assert queue.lose_messages() == 3, "the unsent run, the admitted one, the request to settle"
    assert perform(REAP, asked=BY, now=LATER).count == 0
    assert len(entries()) == 1


def test_only_what_was_never_confirmed_or_got_lost_is_sent_again(queue: Harness) -> None:
    a_bit_of_everything()
    job = saved(a_job("forgotten", NOW))
    run = a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), saved(a_task(job)), dispatched_at=NOW)
    saved(run)
    later = NOW + limits().lost_after
    TaskRun.objects.filter(lease_until__isnull=False).update(lease_until=later + LEASE)
    assert RESEND.outstanding(later, None) == {"unconfirmed": 1, "lost": 1}
    assert perform(RESEND, asked=BY, now=later).done == {"resent": 2}
    assert entries() == [("resend", 2, "the host died", True)]
    assert queue.lose_messages() == 2
    assert RESEND.outstanding(later, None) == {"unconfirmed": 0, "lost": 0}


def test_only_what_is_over_is_settled(queue: Harness, job: Job) -> None:
    a_bit_of_everything()
    saved(an_occurrence(job, NOW, S.FAILED, finalized_at=None))
    assert SETTLE.outstanding(LATER, None) == {"unsettled": 1, "hooks": 1}
    assert perform(SETTLE, asked=BY, now=LATER).done == {"asked": 2}
    assert entries() == [("settle", 2, "the host died", True)]
    assert {name for name, _ in (queue.take() or ("", 0), queue.take() or ("", 0))} == {"punctual.settle"}


@pytest.mark.req("REC-1")
def test_what_was_missed_is_caught_up_of_one_job_or_of_all() -> None:
    first, second = behind("first", "second")
    assert RECOVER.outstanding(NOW, None) == {"jobs": 2, "to_plan": 0, "late": 6}
    assert RECOVER.outstanding(NOW, first) == {"jobs": 1, "to_plan": 0, "late": 3}
    done = perform(RECOVER, asked=BY, now=NOW, job=first)
    assert (done.count, done.done["recovered"], done.done["missed"]) == (3, 1, 2)
    assert set(Occurrence.objects.filter(job=second).values_list("state", "cause")) == {
        ("pending", "schedule")
    }
    assert perform(RECOVER, asked=BY, now=NOW).count == 3
    assert entries() == [("recover", 3, "the host died", True)] * 2
    told = Audit.objects.order_by("id").values_list("details", flat=True)
    assert [{**details, "done": 0} for details in told] == [
        {"job": "first", "done": 0},
        {"jobs": "all", "done": 0},
    ]


@pytest.mark.req("REC-1")
def test_planning_of_one_job_leaves_the_others_to_the_beats() -> None:
    first, _ = (saved(a_job(name, NOW)) for name in ("first", "second"))
    Cursor.objects.update(plan_at=NOW)
    assert RECOVER.outstanding(NOW, first) == {"jobs": 1, "to_plan": 1, "late": 0}
    assert perform(RECOVER, asked=BY, now=NOW, job=first).done["planned"] == 1
    assert set(Occurrence.objects.values_list("job__name", flat=True)) == {"first"}
    assert RECOVER.outstanding(NOW, None)["to_plan"] == 1
    assert entries() == [("recover", 0, "the host died", True)], "planned, and nothing was late"


def test_a_broker_that_is_down_is_told_and_leaves_no_entry() -> None:
    unsent_runs(1)
    over = saved(an_occurrence(saved(a_job("over", NOW)), NOW, S.FAILED, finalized_at=None))
    with broker_down():
        assert perform(RESEND, asked=BY, now=LATER) == Performed(0, {"resent": 0}, failed=1)
        assert perform(SETTLE, asked=BY, now=LATER) == Performed(0, {"asked": 0}, failed=1)
    assert entries() == []
    over.refresh_from_db()
    assert over.finalized_at is None
    assert perform(RESEND, asked=BY, now=LATER).count == 1, "and it is not given up"


def test_many_batches_are_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.resend.resend.__kwdefaults__", {"limit": 2})
    unsent_runs(5)
    seen: list[int] = []
    assert perform(RESEND, asked=BY, now=LATER, progress=seen.append).count == 5
    assert seen == [2, 2, 1, 0]
    assert entries() == [("resend", 5, "the host died", True)]


def test_enough_for_one_request_says_that_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.resend.resend.__kwdefaults__", {"limit": 2})
    unsent_runs(5)
    assert perform(RESEND, asked=BY, now=LATER, most=3) == Performed(4, {"resent": 4}, more=True)
    assert RESEND.outstanding(LATER, None)["unconfirmed"] == 1
    assert perform(RESEND, asked=BY, now=LATER, most=1) == Performed(1, {"resent": 1}), (
        "and no more than that"
    )


def test_looking_costs_the_same_for_many(job: Job, task: Task) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as asked:
            for chore in (RECOVER, REAP, RESEND, SETTLE):
                chore.outstanding(NOW + UNSENT_AFTER, None)
        return len(asked)

    saved(an_occurrence(job, NOW, S.QUEUED))
    few = cost()
    unsent_runs(10)
    behind("first", "second", "third")
    assert cost() == few
