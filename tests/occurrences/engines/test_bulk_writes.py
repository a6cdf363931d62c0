from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from punctual.jobs.models import Job
from punctual.occurrences.engines.current import engine
from punctual.occurrences.models import Cursor, Occurrence, Pool
from tests.occurrences.factories import a_job, an_occurrence, columns_of, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

AWKWARD: list[dict[str, Any]] = [
    {"reason": 'a "quoted" \\ back\\slash, {braces}', "args": {"text": 'ü "\\" {,}', "list": [1, None]}},
    {"reason": "NULL", "expires_at": NOW + timedelta(microseconds=1), "covers": {"from": "x"}},
    {"reason": "", "priority": -7, "execution_timeout": timedelta(days=3, microseconds=5)},
    {"reason": "ohne\nZeile\tende", "exclusive": False, "config": {"mode": "parallel"}},
]


@pytest.fixture
def job() -> Job:
    return saved(a_job("job", NOW))


def rows_of(job: Job) -> list[Occurrence]:
    return [an_occurrence(job, NOW + n * SECOND, **columns) for n, columns in enumerate(AWKWARD)]


@pytest.mark.req("OCC-2")
def test_rows_written_together_are_the_rows_the_orm_would_have_written(job: Job) -> None:
    made = rows_of(job)
    for row in made:
        saved(row)
    expected = [columns_of(Occurrence, row.id) for row in made]
    Occurrence.objects.all().delete()
    engine().insert_missing(Occurrence, map(vars, reversed(made)))
    assert [columns_of(Occurrence, row.id) for row in made] == expected


@pytest.mark.req("OCC-2")
def test_rows_inserted_by_another_process_stay_as_they_are(job: Job) -> None:
    first, second = rows_of(job)[:2]
    saved(an_occurrence(job, NOW, reason="theirs"))
    engine().insert_missing(Occurrence, [vars(first), vars(second)])
    reasons = Occurrence.objects.order_by("scheduled_for").values_list("reason", flat=True)
    assert list(reasons) == ["theirs", "NULL"]


def test_columns_a_row_does_not_name_have_their_default(job: Job) -> None:
    named = {"id", "job_id", "job_version", "scheduled_for", "run_at", "exclusive", "created_at"}
    plain = {name: value for name, value in vars(rows_of(job)[0]).items() if name in named}
    other = vars(an_occurrence(job, NOW + SECOND, reason="known"))
    engine().insert_missing(Occurrence, [plain | {"execution_timeout": SECOND}, other])
    first, second = Occurrence.objects.order_by("scheduled_for")
    assert (first.state, first.reason, first.args, first.parent_id) == ("pending", "", {}, None)
    assert (second.reason, second.execution_timeout) == ("known", timedelta(hours=1))


@pytest.mark.postgres
def test_a_text_that_is_too_long_is_refused_and_not_cut(job: Job) -> None:
    long, short = an_occurrence(job, NOW, reason="x" * 201), an_occurrence(job, NOW + SECOND)
    with pytest.raises(DataError), transaction.atomic():
        engine().insert_missing(Occurrence, [vars(long), vars(short)])


def test_no_rows_send_no_statement() -> None:
    with CaptureQueriesContext(connection) as queries:
        engine().insert_missing(Occurrence, [])
        engine().update_rows(Cursor, [])
    assert len(queries) == 0


def test_an_update_of_many_writes_the_named_columns_of_each_and_no_other() -> None:
    jobs = [saved(a_job(f"job {number}", NOW)) for number in range(3)]
    held = list(Cursor.objects.order_by("job__name"))
    for number, cursor in enumerate(held):
        cursor.plan_at = NOW + number * SECOND if number else None
        cursor.problem, cursor.starts = f'"{number}"\\', 99
    with CaptureQueriesContext(connection) as queries:
        engine().update_rows(Cursor, held, "plan_at", "problem")
    assert len(queries) == 1
    found = Cursor.objects.order_by("job__name").values_list("plan_at", "problem", "starts", "job_id")
    assert list(found) == [
        (None, '"0"\\', 0, jobs[0].id),
        (NOW + SECOND, '"1"\\', 0, jobs[1].id),
        (NOW + 2 * SECOND, '"2"\\', 0, jobs[2].id),
    ]


@pytest.mark.req("REC-6")
def test_parents_that_exist_are_returned(job: Job) -> None:
    rows = [saved(row) for row in rows_of(job)[:2]]
    assert engine().lock_parents([*(row.id for row in rows), uuid4()]) == {row.id for row in rows}


@pytest.mark.req("OCC-7")
def test_all_statements_are_executed_at_the_end_of_a_pipeline() -> None:
    with transaction.atomic(), engine().pipeline():
        Pool.objects.bulk_create([Pool(name="a", size=1)])
        Pool.objects.filter(name="a").update(size=2)
    assert Pool.objects.get().size == 2


def resize_and_create_again() -> None:
    with transaction.atomic(), engine().pipeline():
        Pool.objects.filter(name="a").update(size=2)
        Pool.objects.bulk_create([Pool(name="a", size=1)])


@pytest.mark.req("OCC-7")
def test_a_statement_that_fails_in_a_pipeline_raises_and_rolls_back() -> None:
    Pool.objects.create(name="a", size=1)
    with pytest.raises(IntegrityError):
        resize_and_create_again()
    assert Pool.objects.get().size == 1


def fail_and_continue(reached: list[str]) -> None:
    with transaction.atomic():
        with engine().pipeline():
            with connection.cursor() as cursor:
                cursor.execute("DO $$ BEGIN PERFORM 1 / 0; END $$")
            reached.append("inside")
        reached.append("afterwards")


@pytest.mark.postgres
@pytest.mark.req("OCC-7")
def test_in_a_pipeline_the_process_continues_before_the_answer_arrives() -> None:
    reached: list[str] = []
    with pytest.raises(DatabaseError, match="division"):
        fail_and_continue(reached)
    assert reached == ["inside"]
