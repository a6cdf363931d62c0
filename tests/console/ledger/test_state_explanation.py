"""The explanation of an occurrence, from rows and from the rule that was in force."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from punctual.console.ledger.state_explanation import (
    explain,
    explanation_panel,
    lineage_rows,
    read_facts,
    zone_data_version,
)
from punctual.jobs.config.cascade import job_config
from punctual.jobs.job_schedule import schedule_of
from punctual.jobs.models import Job, JobVersion
from punctual.occurrences.models import Cause, Occurrence
from punctual.occurrences.planning.instants import choose
from punctual.occurrences.states import OccurrenceState as S
from tests.console.fixtures import page
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


def answers(occurrence: Occurrence) -> dict[str, tuple[str, str]]:
    return {one.question: (str(one.answer), one.detail) for one in explain(read_facts(occurrence))}


def planned(job: Job, at: datetime, **facts: Any) -> Occurrence:
    choice = choose(schedule_of(job), job_config(job), job.name, at)
    return make_occurrence(job, at, run_at=choice.run_at, config=job_config(job).to_json(), **facts)


def test_a_scheduled_occurrence_starts_at_its_instant(now: datetime) -> None:
    found = answers(planned(make_job("etl", now, schedule="TZ=Europe/Berlin 0 13 * * *"), now))
    assert found["Cause"][0] == "Scheduled"
    assert "TZ=Europe/Berlin 0 13 * * *" in found["Rule"][0]
    assert "at 13:00 every day, Europe/Berlin time" in found["Rule"][1]
    assert "13:00:00 Europe/Berlin" in found["Instant"][0]
    assert zone_data_version() in found["Instant"][1]
    assert found["Start time"] == ("at its instant", "nothing spreads or delays it")
    assert "overlap “skip”, pool “default”" in found["Admission"][0]


def test_stagger_and_jitter_are_named_separately(now: datetime) -> None:
    found = answers(planned(make_job("etl", now, schedule="0 12 * * * {stagger:1h, jitter:10m}"), now))
    assert "stagger" in found["Start time"][1]
    assert "jitter" in found["Start time"][1]
    assert "moved" not in found["Start time"][1]


def test_a_spread_is_named_with_its_seed(now: datetime) -> None:
    job = make_job("etl", now, config={"spread": "@win(after,1h) @dist(uniform)"})
    assert "seed " in answers(planned(job, now))["Start time"][1]


def test_a_start_moved_by_hand_is_named(now: datetime) -> None:
    job = make_job("etl", now, schedule="0 12 * * *")
    moved = make_occurrence(job, now, run_at=now + timedelta(hours=1), config=job_config(job).to_json())
    assert answers(moved)["Start time"] == ("1 h 00 min later", "moved since, by hand or by another rule")


def test_the_rule_is_the_one_of_its_version(now: datetime) -> None:
    job = make_job("etl", now, schedule="0 5 * * *", version=2)
    after = {"schedule": "0 2 * * *"}
    JobVersion.objects.create(job=job, number=1, author="ada", after=after, created_at=now)
    answer, detail = answers(planned(job, now, job_version=1))["Rule"]
    assert "0 2 * * *" in answer
    assert "the job is at version 2 now" in detail


def test_a_missed_range_names_the_strategy_and_how_many_it_stands_for(now: datetime) -> None:
    job = make_job("etl", now)
    facts = {"spans_until": now + timedelta(hours=9), "instants": 9, "started_at": None, "late_at": now}
    found = answers(make_occurrence(job, now, S.MISSED, config={"recovery": "execute_last"}, **facts))
    assert found["Recovery"][0] == "strategy “execute_last”: recorded as missed"
    assert found["Stands for"][0] == "9 instants"


def test_the_requester_is_named_and_escaped(now: datetime) -> None:
    job = make_job("etl", now)
    facts: dict[str, Any] = {
        "cause": Cause.REPLAY,
        "requested_by": "<ada>",
        "request_reason": "disk was full",
    }
    one = make_occurrence(job, now, **facts)
    assert answers(one)["Cause"] == ("Replayed by <ada>", "disk was full")
    assert "<ada>" not in explanation_panel(one)


def test_a_row_damaged_by_raw_sql_still_has_a_page(root: Client, now: datetime) -> None:
    job = make_job("etl", now, schedule="99 * * * *")
    one = make_occurrence(job, now, config={"overlap": 3})
    text = page(root, f"/admin/punctual/occurrence/{one.pk}/change/")
    assert "it cannot be read any more" in text


def test_lineage_leads_up_and_down(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    parent = make_occurrence(job, now, S.FAILED)
    child = make_occurrence(job, now + timedelta(hours=1), cause=Cause.REPLAY, parent=parent)
    assert [row[0] for row in lineage_rows(child, [])] == ["repeats"]
    assert [row[0] for row in lineage_rows(parent, [child])] == ["is repeated by"]
    assert str(child.pk) in page(root, f"/admin/punctual/occurrence/{parent.pk}/change/")
