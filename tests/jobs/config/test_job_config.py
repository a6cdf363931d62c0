from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from punctual.jobs.config.cascade import job_config, task_config
from punctual.jobs.errors import DefinitionError
from tests.occurrences.factories import a_job, a_task

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.req("JOB-2")
def test_each_value_names_its_layer_platform_job_or_task(settings: Settings) -> None:
    settings.PUNCTUAL = {"queue": "platform", "task_timeout": timedelta(minutes=1), "mode": "parallel"}
    job = a_job("job", NOW, config={"queue": "job", "task_timeout": "2m"})
    config = task_config(job, a_task(job, config={"queue": "task"}))

    assert (config.queue, config.origin("queue")) == ("task", "task")
    assert (config.task_timeout, config.origin("task_timeout")) == (timedelta(minutes=2), "job")
    assert (config.mode, config.origin("mode")) == ("parallel", "platform")
    assert config.origin("overlap") == "default"
    assert job_config(job).queue == "job"


@pytest.mark.req("JOB-2")
def test_a_changed_platform_setting_applies_at_once(settings: Settings) -> None:
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
def test_an_invalid_config_in_a_row_is_a_definition_error(config: Any) -> None:
    with pytest.raises(DefinitionError):
        job_config(a_job("job", NOW, config=config))
