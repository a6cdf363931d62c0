import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from punctual.occurrences.database.unawaited import unawaited
from punctual.occurrences.models import Pool

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-7")]


def test_all_statements_are_executed_at_the_end_of_the_block() -> None:
    with transaction.atomic(), unawaited():
        Pool.objects.bulk_create([Pool(name="a", size=1)])
        Pool.objects.filter(name="a").update(size=2)
    assert Pool.objects.get().size == 2


def resize_and_make_again() -> None:
    with transaction.atomic(), unawaited():
        Pool.objects.filter(name="a").update(size=2)
        Pool.objects.bulk_create([Pool(name="a", size=1)])


def test_a_statement_that_fails_raises_and_rolls_back() -> None:
    Pool.objects.create(name="a", size=1)
    with pytest.raises(IntegrityError):
        resize_and_make_again()
    assert Pool.objects.get().size == 1


def fail_and_go_on(reached: list[str]) -> None:
    with transaction.atomic():
        with unawaited():
            with connection.cursor() as cursor:
                cursor.execute("DO $$ BEGIN PERFORM 1 / 0; END $$")
            reached.append("meanwhile")
        reached.append("afterwards")


@pytest.mark.postgres
def test_the_process_continues_before_the_answer_arrives() -> None:
    reached: list[str] = []
    with pytest.raises(DatabaseError, match="division"):
        fail_and_go_on(reached)
    assert reached == ["meanwhile"]
