"""Both engines leave the same rows: PostgreSQL's statements, and the steps through the ORM."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

from punctual.execution.ending.attempt_report import Report
from punctual.execution.ending.cancel import cancel
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.ending.report import record_attempts, report
from punctual.execution.ending.settle import Settled
from punctual.execution.worker.claim import FORESEEN, Claim, begin, claim, report_of_claim
from punctual.jobs.ids import attempt_id
from punctual.jobs.models import Job, Task
from punctual.occurrences import transitions
from punctual.occurrences.engines import portable, postgresql
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_job, a_run, a_task, an_attempt, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.postgres, pytest.mark.req("TSK-2")]

S, R = OccurrenceState, RunState
LATER = NOW + timedelta(seconds=5)
FOREIGN = {"claim_token", "claim"}  # chosen at random


@pytest.fixture(autouse=True)
def only_postgresql(db: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("compares with PostgreSQL's statements")


def bundle(count: int) -> list[UUID]:
    ids = []
    for number in range(count):
        job = saved(a_job(f"job-{number}", NOW))
        run = a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), saved(a_task(job)))
        ids.append(saved(run).id)
    return ids


def ledger() -> list[dict[str, Any]]:
    """All rows of the three tables."""
    return [
        {key: value for key, value in row.items() if key not in FOREIGN}
        for model in (Occurrence, TaskRun, Attempt)
        for row in model.objects.order_by("pk").values()
    ]


def both(act: Callable[[], object]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows after the steps through the ORM, and after the same steps in single statements."""
    found = []
    for engine in (portable, postgresql):
        with pytest.MonkeyPatch.context() as patch, rolled_back():
            patch.setattr(transitions, "engine", lambda engine=engine: engine)
            act()
            found.append(ledger())
    return found[0], found[1]


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def all_begun(claims: Iterable[Claim]) -> list[Claim]:
    return [begun for item in claims if (begun := item if item.began_at else begin(item, now=LATER))]


def reported(item: Claim, ending: Ending = Ending.SUCCESS) -> Report:
    return report_of_claim(item, Result(ending))


def test_a_claim_leaves_the_same_rows(queue: object) -> None:
    ids = bundle(3)
    through_orm, in_sql = both(lambda: claim(ids, worker="w", now=LATER))
    assert in_sql == through_orm
    assert [row["state"] for row in in_sql if "position" in row] == ["claimed"] * 3


@pytest.mark.parametrize("count", [1, 3])
def test_begun_and_completed_they_leave_the_same_rows(count: int) -> None:
    ids = bundle(count)

    def act() -> None:
        claims = claim(ids, worker="w", now=LATER)
        report([reported(item) for item in all_begun(claims)], now=LATER + timedelta(seconds=1))

    through_orm, in_sql = both(act)
    assert in_sql == through_orm
    assert {row["state"] for row in in_sql} == {"completed", "success"}


def test_one_whose_attempt_became_a_row_meanwhile_is_completed_like_the_others() -> None:
    ids = bundle(2)

    def act() -> None:
        begun = all_begun(claim(ids, worker="w", now=LATER))
        record_attempts([begun[0].begun], now=LATER)
        report([reported(item) for item in begun], now=LATER + timedelta(seconds=1))

    through_orm, in_sql = both(act)
    assert in_sql == through_orm
    assert {row["state"] for row in in_sql} == {"completed", "success"}


def test_a_claim_returns_the_same_values_as_the_rows() -> None:
    (id_,) = bundle(1)
    (item,) = claim([id_], worker="w", now=LATER)
    row = TaskRun.objects.select_related("task", "occurrence__job").get(id=id_)
    assert item.run == portable._claimed_run(row, first=True, alone=True)


def test_a_run_with_siblings_is_not_alone_and_ends_by_itself(job: Job, task: Task, second: Task) -> None:
    occurrence = saved(an_occurrence(job, NOW, S.DISPATCHED))
    runs = [saved(a_run(occurrence, one)) for one in (task, second)]
    claims = claim([run.id for run in runs], worker="w", now=LATER)
    assert [item.run.alone for item in claims] == [False, False]
    settled = report([reported(item) for item in all_begun(claims[:1])], now=LATER)
    assert settled == Settled()
    assert Occurrence.objects.get().state == S.RUNNING


def test_a_run_with_more_attempts_than_expected_is_claimed_as_well(job: Job, task: Task) -> None:
    run = saved(a_run(saved(an_occurrence(job, NOW, S.RUNNING)), task, attempts_made=FORESEEN))
    for number in range(FORESEEN):
        saved(an_attempt(run, "failed", number=number))  # type: ignore[arg-type]
    (item,) = claim([run.id], worker="w", now=LATER)
    assert (item.number, item.attempt_id) == (FORESEEN, attempt_id(run.id, FORESEEN))
    # As in a bundle: its attempt is recorded with its result.
    (begun,) = all_begun([item])
    report([reported(begun)], now=LATER)
    assert Attempt.objects.get(number=FORESEEN).state == "success"


def test_a_bundle_whose_first_run_is_taken_claims_the_others_unbegun() -> None:
    ids = bundle(3)
    claim(ids[:1], worker="other", now=LATER)
    claimed = claim(ids, worker="w", now=LATER)
    assert [(item.run.id, item.began_at) for item in claimed] == [(ids[1], None), (ids[2], None)]
    assert [item.run.first for item in claimed] == [True, True]


def test_a_late_success_changes_nothing() -> None:
    ids = bundle(2)
    begun = all_begun(claim(ids, worker="w", now=LATER))
    record_attempts([item.begun for item in begun], now=LATER)
    transitions.cancel([ids[0]], reason="reaped", now=LATER)
    before = ledger()
    stale = [replace(item, token=uuid4()) for item in begun]
    assert report([reported(item) for item in stale], now=LATER).fenced == 2
    assert ledger() == before
    assert report([reported(item) for item in begun], now=LATER).fenced == 1


def test_successes_and_failures_of_one_bundle_are_each_recorded() -> None:
    ids = bundle(3)
    claims = claim(ids, worker="w", now=LATER)
    endings = (Ending.SUCCESS, Ending.FAILED, Ending.SUCCESS)
    reports = [reported(item, ending) for item, ending in zip(all_begun(claims), endings, strict=True)]
    settled = report(reports, now=LATER)
    assert [TaskRun.objects.get(id=id_).state for id_ in ids] == ["success", "retry", "success"]
    assert len(settled.finished) == 2


@pytest.mark.req("JOB-9")
def test_an_occurrence_whose_job_has_hooks_is_not_finalized() -> None:
    ids = bundle(2)
    row = Occurrence.objects.get(job__name="job-1")
    Occurrence.objects.filter(id=row.id).update(config=row.config | {"on_complete": ["a.hook"]})
    claims = claim(ids, worker="w", now=LATER)
    settled = report([reported(item) for item in all_begun(claims)], now=LATER)
    owing = claims[1].run.occurrence.id
    assert settled.with_hooks == (owing,)
    assert [row.id for row in Occurrence.objects.unfinalized()] == [owing]


@pytest.mark.req("OCC-4")
def test_waiting_occurrences_are_admitted(job: Job, task: Task) -> None:
    run = saved(a_run(saved(an_occurrence(job, NOW, S.DISPATCHED)), task))
    waiting = saved(an_occurrence(job, LATER, S.QUEUED))
    (item,) = claim([run.id], worker="w", now=LATER)
    settled = report([reported(item)], now=LATER)
    assert [TaskRun.objects.get(id=id_).occurrence_id for id_ in settled.released] == [waiting.id]


@pytest.mark.parametrize(
    "ending", [Ending.SUCCESS, Ending.FAILED, Ending.FATAL, Ending.SNOOZED, Ending.CANCELED]
)
@pytest.mark.parametrize("count", [1, 50])
def test_two_statements_take_a_message_from_its_claim_to_its_end(
    django_assert_num_queries: Callable[[int], Any], count: int, ending: Ending
) -> None:
    ids = bundle(count)
    with django_assert_num_queries(2):
        claims = claim(ids, worker="w", now=LATER)
        report([reported(item, ending) for item in all_begun(claims)], now=LATER)


@pytest.mark.req("EXE-3", "EXE-4")
@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("count", [1, 3])
def test_every_ending_leaves_the_same_rows(count: int, ending: Ending) -> None:
    ids = bundle(count)
    result = Result(
        ending,
        error_type="ValueError" if ending in (Ending.FAILED, Ending.FATAL) else "",
        error='a "quoted" \\ text',
        traceback="Traceback {1,2}\nNULL",
        delay=timedelta(seconds=7) if ending is Ending.SNOOZED else None,
    )

    def act() -> None:
        claims = all_begun(claim(ids, worker="w", now=LATER))
        report([report_of_claim(item, result) for item in claims], now=LATER + timedelta(seconds=1))

    through_orm, in_sql = both(act)
    assert in_sql == through_orm


@pytest.mark.req("EXE-10")
def test_canceled_occurrences_leave_the_same_rows(queue: object) -> None:
    ids = bundle(3)
    claim(ids[:2], worker="w", now=LATER)
    owners = list(Occurrence.objects.order_by("id").values_list("id", flat=True))
    through_orm, in_sql = both(lambda: cancel(owners, reason="enough", now=LATER))
    assert in_sql == through_orm
    assert {row["state"] for row in in_sql} == {"canceled"}
