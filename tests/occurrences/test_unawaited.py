import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from occurrences.models import Pool
from occurrences.unawaited import unawaited

pytestmark = [pytest.mark.django_db, pytest.mark.req("OCC-7")]


def test_what_was_sent_is_done_at_the_end() -> None:
    with transaction.atomic(), unawaited():
        Pool.objects.bulk_create([Pool(name="a", size=1)])
        Pool.objects.filter(name="a").update(size=2)
    assert Pool.objects.get().size == 2


def resize_and_make_again() -> None:
    with transaction.atomic(), unawaited():
        Pool.objects.filter(name="a").update(size=2)
        Pool.objects.bulk_create([Pool(name="a", size=1)])


def test_a_statement_that_fails_undoes_all_and_says_so() -> None:
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
def test_other_work_is_done_before_the_answer_is_there() -> None:
    reached: list[str] = []
    with pytest.raises(DatabaseError, match="division"):
        fail_and_go_on(reached)
    assert reached == ["meanwhile"]
