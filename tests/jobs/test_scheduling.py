from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from jobs.errors import DefinitionError
from jobs.scheduling import job_config, schedule_of, task_config, upcoming
from tests.occurrences.ledger import a_job, a_task

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.req("JOB-2")
def test_platform_job_and_task_are_layered_and_name_themselves(settings: Settings) -> None:
    settings.PUNCTUAL = {"queue": "platform", "task_timeout": timedelta(minutes=1), "mode": "parallel"}
    job = a_job("job", NOW, config={"queue": "job", "task_timeout": "2m"})
    config = task_config(job, a_task(job, config={"queue": "task"}))

    assert (config.queue, config.origin("queue")) == ("task", "task")
    assert (config.task_timeout, config.origin("task_timeout")) == (timedelta(minutes=2), "job")
    assert (config.mode, config.origin("mode")) == ("parallel", "platform")
    assert config.origin("overlap") == "default"
    assert job_config(job).queue == "job"


@pytest.mark.req("JOB-2")
def test_a_changed_platform_setting_counts_at_once(settings: Settings) -> None:
    job = a_job("job", NOW)
    settings.PUNCTUAL = {"queue": "one"}
    assert job_config(job).queue == "one"
    settings.PUNCTUAL = {"queue": "two"}
    assert job_config(job).queue == "two"


def test_a_bad_platform_setting_names_the_setting(settings: Settings) -> None:
    settings.PUNCTUAL = {"colour": "red"}
    with pytest.raises(DefinitionError, match="colour='red': unknown setting"):
        job_config(a_job("job", NOW))


@pytest.mark.parametrize("config", [[1], None, "text", {"retry": 5}, {"colour": "red"}])
def test_a_row_edited_into_nonsense_is_a_definition_error(config: Any) -> None:
    with pytest.raises(DefinitionError):
        job_config(a_job("job", NOW, config=config))


def test_intervals_count_from_the_job_s_creation_and_the_job_s_zone_applies() -> None:
    every = a_job("every", NOW + timedelta(seconds=7), schedule="@every 1h")
    assert upcoming(every, NOW + timedelta(hours=5), 2) == [
        NOW + timedelta(hours=5, seconds=7),
        NOW + timedelta(hours=6, seconds=7),
    ]
    berlin = a_job("berlin", NOW, schedule="0 9 * * *", config={"timezone": "Europe/Berlin"})
    assert schedule_of(berlin).next_after(NOW) == datetime(2026, 1, 6, 8, tzinfo=UTC)


def test_random_intervals_belong_to_the_job_s_name() -> None:
    found = {name: tuple(upcoming(a_job(name, NOW, schedule="@every 1h-9h"), NOW, 3)) for name in "ab"}
    assert found["a"] != found["b"]
    assert found["a"] == tuple(upcoming(a_job("a", NOW, schedule="@every 1h-9h"), NOW, 3))


@pytest.mark.parametrize(("count", "found"), [(0, 0), (1, 1), (5, 1)])
def test_a_schedule_that_ends_names_no_more_than_it_has(count: int, found: int) -> None:
    job = a_job("once", NOW, schedule="@once 2026-02-01T00:00:00Z")
    assert len(upcoming(job, NOW, count)) == found
