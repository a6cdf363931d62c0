from uuid import UUID, uuid4

import pytest

from punctual.jobs.ids import format_id, job_id, parse_id, task_id


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
