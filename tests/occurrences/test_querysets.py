from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from punctual.occurrences.models import Cursor, Occurrence
from punctual.occurrences.querysets import Ids
from tests.occurrences.factories import a_job, an_occurrence, saved

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_any_finds_the_same_rows_as_in_by_key_and_by_relation() -> None:
    jobs = [saved(a_job(f"job {number}", NOW)) for number in range(3)]
    rows = [saved(an_occurrence(job, NOW + timedelta(seconds=n))) for n, job in enumerate(jobs)]
    wanted = [rows[0].id, rows[2].id, uuid4()]
    assert set(Occurrence.objects.filter(id__any=wanted)) == {rows[0], rows[2]}
    owners = {jobs[1].id}
    assert list(Occurrence.objects.filter(job__any=owners)) == [rows[1]]
    assert list(Cursor.objects.filter(job__any=Ids(owners)).values_list("job_id", flat=True)) == [jobs[1].id]


def test_any_of_an_empty_list_sends_no_statement() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert not Occurrence.objects.filter(id__any=[])
        assert Occurrence.objects.filter(job__any=set()).update(reason="x") == 0
    assert len(queries) == 0


@pytest.mark.postgres
def test_a_list_of_any_length_is_one_parameter() -> None:
    for size in (2, 200):
        query = str(Occurrence.objects.filter(id__any=[uuid4() for _ in range(size)]).query)
        assert query.count("ANY(") == 1
        assert " IN " not in query
