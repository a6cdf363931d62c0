from datetime import UTC, datetime, timedelta, timezone
from uuid import NAMESPACE_DNS, NAMESPACE_OID, NAMESPACE_URL, UUID, uuid4, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.jobs.ids import (
    attempt_id,
    format_id,
    instant_key,
    job_id,
    occurrence_id,
    parse_id,
    repeat_id,
    run_id,
    task_id,
)

NEW_YEAR = datetime(2023, 1, 1, 5, tzinfo=UTC)


@pytest.mark.req("JOB-1")
def test_a_job_has_the_same_id_on_every_machine() -> None:
    assert job_id("nightly-etl") == UUID("065c2cb6-ba32-50db-8860-09760643dbe3")


@pytest.mark.req("JOB-1")
def test_a_task_has_the_same_id_on_every_machine() -> None:
    assert task_id(job_id("nightly-etl"), "extract") == UUID("6ed9aef6-3993-55f0-88c8-f067ccc9c593")


@pytest.mark.req("JOB-1")
def test_tasks_of_the_same_name_in_two_jobs_differ() -> None:
    assert task_id(job_id("a"), "load") != task_id(job_id("b"), "load")


def test_an_id_is_parsed_with_and_without_its_prefix() -> None:
    id_ = uuid4()
    assert parse_id("job", format_id("job", id_)) == id_
    assert parse_id("job", str(id_)) == id_


@pytest.mark.parametrize("text", ["", "job_", "job_nonsense", f"occ_{job_id('a')}"])
def test_text_that_is_not_an_id_of_that_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id of the form job_<uuid>") as refused:
        parse_id("job", text)
    assert repr(text) in str(refused.value)


@pytest.mark.req("OCC-1")
def test_ids_match_the_published_examples() -> None:
    occurrence = occurrence_id("job_foo", NEW_YEAR)
    run = run_id(occurrence, "task_a")
    attempt = attempt_id(run, 0)
    assert format_id("occ", occurrence) == "occ_f4a5318a-f2b5-53c2-b3c0-1b208a7021c9"
    assert format_id("run", run) == "run_e02410a7-3d4e-5c52-8bfe-e94060e83eb8"
    assert format_id("attempt", attempt) == "attempt_46da2150-9633-553d-adc2-f25eaf7d9626"


@pytest.mark.req("OCC-1")
def test_a_uuid_and_its_display_id_give_the_same_id() -> None:
    job = job_id("nightly-etl")
    task = task_id(job, "extract")
    occurrence = occurrence_id(job, NEW_YEAR)
    assert occurrence == occurrence_id(format_id("job", job), NEW_YEAR)
    assert run_id(occurrence, task) == run_id(occurrence, format_id("task", task))


@pytest.mark.req("OCC-1")
def test_an_instant_is_the_same_in_every_zone() -> None:
    elsewhere = NEW_YEAR.astimezone(timezone(timedelta(hours=9)))
    assert occurrence_id("job_foo", elsewhere) == occurrence_id("job_foo", NEW_YEAR)


@pytest.mark.req("OCC-1")
@pytest.mark.parametrize(
    ("instant", "key"),
    [
        (NEW_YEAR, "1672549200"),
        (NEW_YEAR + timedelta(microseconds=1), "1672549200.000001"),
        (NEW_YEAR + timedelta(milliseconds=250), "1672549200.250000"),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "-1"),
    ],
)
def test_a_fraction_appears_in_the_key_only_when_there_is_one(instant: datetime, key: str) -> None:
    assert instant_key(instant) == key


@pytest.mark.req("OCC-1")
@given(*[st.datetimes(timezones=st.just(UTC))] * 2)
def test_two_instants_share_a_key_only_when_they_are_one(one: datetime, other: datetime) -> None:
    assert (instant_key(one) == instant_key(other)) == (one == other)


@pytest.mark.req("OCC-1")
def test_attempts_of_one_run_differ() -> None:
    run = run_id(occurrence_id("job_foo", NEW_YEAR), "task_a")
    assert len({attempt_id(run, number) for number in range(10)}) == 10


@pytest.mark.req("OCC-1")
@given(st.uuids(), st.uuids(), st.datetimes(timezones=st.just(UTC)), st.integers(0, 100))
def test_ids_are_uuids_of_version_5_and_the_same_for_a_uuid_and_its_text(
    one: UUID, other: UUID, at: datetime, number: int
) -> None:
    instant = instant_key(at)
    assert (
        occurrence_id(one, at) == occurrence_id(str(one), at) == uuid5(NAMESPACE_DNS, f"job_{one}:{instant}")
    )
    name = f"occ_{one}:task_{other}"
    assert run_id(one, other) == run_id(str(one), str(other)) == uuid5(NAMESPACE_URL, name)
    assert (
        attempt_id(one, number) == attempt_id(str(one), number) == uuid5(NAMESPACE_OID, f"run_{one}:{number}")
    )
    assert repeat_id(one, number) == uuid5(NAMESPACE_DNS, f"occ_{one}:repeat:{number}")
