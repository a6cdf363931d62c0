"""A migration can remove the rules of a table and add others."""

import pytest
from django.db import IntegrityError, connection

from punctual.jobs.check_constraints import Rules
from punctual.occurrences.models import Attempt
from punctual.occurrences.states import OccurrenceState
from tests.execution.conftest import NOW
from tests.occurrences.factories import a_job, a_run, a_task, an_attempt, an_occurrence, saved

pytestmark = [pytest.mark.django_db, pytest.mark.postgres, pytest.mark.req("OCC-3")]


def test_rules_can_be_removed_and_added_again() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite makes the table anew")
    (rules,) = (item for item in Attempt._meta.constraints if isinstance(item, Rules))
    with connection.schema_editor() as editor:
        editor.remove_constraint(Attempt, rules)
        assert not exists(rules.name)
        editor.add_constraint(Attempt, rules)
        assert exists(rules.name)
    job = saved(a_job("job", NOW))
    run = saved(a_run(saved(an_occurrence(job, NOW, OccurrenceState.RUNNING)), saved(a_task(job))))
    with pytest.raises(IntegrityError, match=r"attempt_(state_is_known|finished_iff_final)"):
        saved(an_attempt(run, "sleeping"))  # type: ignore[arg-type]


def exists(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_proc WHERE proname = %s", [function])
        return cursor.fetchone() is not None
