"""Every key of PUNCTUAL has a default in code, and a wrong value is named in one line."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from punctual import conf
from punctual.conf import Settings
from tests.architecture.source import modules


@override_settings()
def test_nothing_has_to_be_set() -> None:
    from django.conf import settings  # noqa: PLC0415 - the overridden one

    del settings.PUNCTUAL
    assert conf.current_settings() == Settings()
    assert conf.cascade_layer() == {}


@override_settings(PUNCTUAL={"lease": "1m30s", "worker_slots": 3, "oldest_tick": timedelta(seconds=9)})
def test_a_key_that_is_set_replaces_its_default() -> None:
    expected = Settings(lease=timedelta(seconds=90), worker_slots=3, oldest_tick=timedelta(seconds=9))
    assert conf.current_settings() == expected
    assert conf.cascade_layer() == {}


@override_settings(PUNCTUAL={"lease": "1m", "timezone": "Europe/Berlin"})
def test_the_other_keys_are_the_platform_layer_of_the_cascade() -> None:
    assert conf.cascade_layer() == {"timezone": "Europe/Berlin"}


def test_only_the_platform_reads_environment_variables() -> None:
    readers = [
        module.path
        for module in modules()
        if not module.path.startswith("scheduler_project/") and re.search(r"\benviron\b|getenv", module.text)
    ]
    assert readers == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("30s", "PUNCTUAL='30s': expected a dictionary"),
        ({"lease": "soon"}, "PUNCTUAL['lease']='soon': expected a duration such as 30s, 5m or 1h30m"),
        ({"lease": 30}, "PUNCTUAL['lease']=30: expected a duration"),
        ({"kill_after": timedelta()}, "PUNCTUAL['kill_after']=datetime.timedelta(0): expected a duration"),
        ({"lost_after": None}, "PUNCTUAL['lost_after']=None: expected a duration"),
        ({"worker_slots": 0}, "PUNCTUAL['worker_slots']=0: expected a whole number of at least 1"),
        ({"worker_slots": True}, "PUNCTUAL['worker_slots']=True: expected a whole number"),
        ({"prepared_statements": "no"}, "PUNCTUAL['prepared_statements']='no': expected True or False"),
        ({"database": "archive"}, "PUNCTUAL['database']='archive': expected an alias of DATABASES"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(given: Any, message: str) -> None:
    with override_settings(PUNCTUAL=given), pytest.raises(ImproperlyConfigured) as refused:
        conf.current_settings()
    assert str(refused.value).startswith(message)
