from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from punctual.jobs.config.cascade import Config, check_combination, load_snapshot, merge_layers
from punctual.jobs.config.choices import Mode, Overlap
from punctual.jobs.config.keys import KEYS, TASK_KEYS, normalize
from punctual.jobs.config.retry import Retry
from punctual.jobs.errors import DefinitionError

pytestmark = pytest.mark.req("JOB-2")

# A value for every key that is not the default, as users write it and as it is stored.
OVERRIDES: dict[str, tuple[Any, Any]] = {
    "timezone": ("Europe/Berlin", "Europe/Berlin"),
    "overlap": ("queue", "queue"),
    "mode": ("parallel", "parallel"),
    "failure_strategy": ("continue", "continue"),
    "retry": (
        Retry(1, "5s"),
        {"max_retries": 1, "interval": "5s", "backoff": 1.0, "max_interval": "1d", "jitter": "500ms"},
    ),
    "execution_timeout": (timedelta(hours=2), "2h"),
    "task_timeout": ("90s", "1m30s"),
    "dispatch_timeout": ("10m", "10m"),
    "bundle": (False, False),
    "recovery": ("bounded_window", "bounded_window"),
    "recovery_max_occurrences": (3, 3),
    "recovery_max_duration": ("24h", "1d"),
    "recovery_rate": ("030/h", "30/h"),
    "misfire_grace": ("5m", "5m"),
    "pool": ("reports", "reports"),
    "priority": (-5, -5),
    "queue": ("slow", "slow"),
    "spread": ("@win(after,1h)", "@win(after,1h)"),
    "update_policy": ("graceful", "graceful"),
    "retention": ("30d", "30d"),
    "secret_args": (("token", "pin", "pin"), ["pin", "token"]),
    "on_start": (("app.second", "app.first", "app.second"), ["app.second", "app.first"]),
    "on_complete": (("app.notify",), ["app.notify"]),
}


def test_every_key_is_tested_in_this_file() -> None:
    assert OVERRIDES.keys() == KEYS.keys()


@pytest.mark.parametrize("key", KEYS)
def test_an_override_is_stored_as_json_and_read_back_with_its_layer(key: str) -> None:
    written, stored = OVERRIDES[key]
    overrides = normalize({key: written}, owner="job")
    assert overrides == {key: stored}
    config = merge_layers({"platform": {}, "job": overrides})
    assert getattr(config, key) != getattr(Config(), key)
    assert config.to_json(frozenset({key})) == {key: stored}
    assert config.origin(key) == "job"


@pytest.mark.parametrize("key", KEYS)
def test_the_most_specific_layer_wins_and_unset_values_are_inherited(key: str) -> None:
    _, stored = OVERRIDES[key]
    default = Config().to_json(frozenset({key}))[key]
    assert getattr(merge_layers({"platform": {key: stored}, "job": {}, "task": {}}), key) != default
    layered = merge_layers({"platform": {key: stored}, "job": {key: default}, "task": {}})
    assert layered.to_json(frozenset({key})) == {key: default}
    assert layered.origin(key) == "job"
    assert merge_layers({"platform": {key: stored}, "job": {}}).origin(key) == "platform"
    assert merge_layers({}).origin(key) == "default"


def test_only_what_is_overridden_is_stored() -> None:
    assert normalize({}, owner="job") == {}


def test_a_whole_snapshot_survives_a_round_trip() -> None:
    snapshot = {key: stored for key, (_, stored) in OVERRIDES.items()}
    assert load_snapshot(snapshot).to_json() == dict(sorted(snapshot.items()))
    assert load_snapshot(Config().to_json()) == Config()


def test_configurations_with_equal_values_are_equal_whatever_their_layers() -> None:
    assert merge_layers({"job": {"mode": "parallel"}}) == merge_layers({"task": {"mode": Mode.PARALLEL}})


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("timezone", "Mars/Olympus", "expected an IANA time zone such as Europe/Berlin"),
        ("timezone", "Europe", "expected an IANA time zone"),
        ("timezone", "../etc/passwd", "expected an IANA time zone"),
        ("timezone", "/etc/localtime", "expected an IANA time zone"),
        ("timezone", "", "expected an IANA time zone"),
        ("timezone", "UTC\0", "expected an IANA time zone"),
        ("timezone", 5, "expected an IANA time zone"),
        ("overlap", "maybe", "expected one of skip, allow, queue"),
        ("overlap", None, "expected one of skip, allow, queue"),
        ("mode", "Parallel", "expected one of sequential, parallel"),
        ("failure_strategy", ["continue"], "expected one of fail_fast, continue, retry_on_failure"),
        ("recovery", True, "expected one of execute_all, execute_last, mark_as_missed, bounded_window"),
        ("retry", 3, "expected Retry(max_retries, interval, ...) or its fields"),
        ("retry", None, "expected Retry(max_retries, interval, ...) or its fields"),
        ("retry", {"max_retries": -1}, "max_retries=-1: expected 0 to 10000"),
        ("retry", {}, "max_retries is missing"),
        ("retry", {"max_retries": 1, "often": 2}, "unknown field 'often'"),
        ("execution_timeout", "0s", "expected a duration from 1ms to 366d"),
        ("execution_timeout", 60, "expected a duration such as 30s"),
        ("task_timeout", timedelta(microseconds=5), "expected a duration from 1ms to 366d"),
        ("misfire_grace", None, "expected a duration such as 30s"),
        ("recovery_max_occurrences", 0, "expected a whole number of at least 1"),
        ("recovery_max_occurrences", True, "expected a whole number of at least 1"),
        ("recovery_max_occurrences", "2", "expected a whole number of at least 1"),
        ("recovery_max_duration", "forever", "expected a duration such as 30s"),
        ("pool", "x" * 101, "expected a name of 1 to 100 printable characters"),
        ("priority", 1.5, "expected a whole number from -"),
        ("priority", 10**9, "expected a whole number from -"),
        ("priority", True, "expected a whole number from -"),
        ("spread", "@win(sideways,1h)", "expected modifiers such as @win(after,1h)"),
        ("spread", 5, "expected modifiers such as @win(after,1h)"),
        ("retention", "0s", "expected a duration from 1ms to 366d"),
        ("queue", "", "expected a name"),
        ("queue", "  ", "expected a name"),
        ("queue", 7, "expected a name"),
        ("bundle", 1, "expected true or false"),
        ("bundle", "yes", "expected true or false"),
        ("secret_args", "token", "expected a list of names"),
        ("secret_args", ["token", ""], "expected a name of 1 to 100 printable characters"),
        ("on_start", "app.notify", "expected a list of names of registered hooks"),
        ("on_complete", [["app.notify"]], "expected names of registered hooks, of 1 to 500 characters"),
        ("on_complete", ["app.no\0tify"], "expected names of registered hooks"),
        ("on_complete", [f"app.{n}" for n in range(21)], "expected at most 20 hooks"),
        ("colour", "red", "unknown setting; expected one of bundle, dispatch_timeout, execution_timeout"),
        ("origins", {}, "unknown setting"),
    ],
)
def test_a_bad_value_is_refused_with_owner_field_value_and_what_is_allowed(
    key: str, value: object, allowed: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        normalize({key: value}, owner="nightly")
    error = caught.value
    assert (error.field, error.value, error.owner) == (key, value, "nightly")
    assert allowed in error.reason
    assert str(error) == f"nightly: {key}={value!r}: {error.reason}"


@pytest.mark.parametrize("key", sorted(KEYS.keys() - TASK_KEYS))
def test_a_setting_of_jobs_cannot_be_set_on_a_task(key: str) -> None:
    with pytest.raises(
        DefinitionError, match="unknown setting; expected one of bundle, dispatch_timeout, failure_strategy"
    ):
        normalize({key: OVERRIDES[key][0]}, owner="job/task", keys=TASK_KEYS)


@pytest.mark.parametrize("layer", [[1], None, "text", 5])
def test_a_layer_that_is_not_a_mapping_is_a_definition_error(layer: Any) -> None:
    """Raw SQL can store any JSON; readers handle DefinitionError only."""
    with pytest.raises(DefinitionError) as caught:
        merge_layers({"platform": {}, "job": layer})
    assert (caught.value.field, caught.value.value) == ("job", layer)


def test_a_more_specific_layer_can_remove_a_bound() -> None:
    bounds = {"recovery_max_occurrences": 3, "recovery_max_duration": "1d"}
    config = merge_layers({"platform": bounds, "job": dict.fromkeys(bounds)})
    assert (config.recovery_max_occurrences, config.recovery_max_duration) == (None, None)
    assert config.to_json(frozenset(bounds)) == dict.fromkeys(sorted(bounds))


def test_enum_members_are_stored_as_plain_strings() -> None:
    stored = normalize({"overlap": Overlap.QUEUE, "mode": Mode.PARALLEL}, owner="job")
    assert [type(value) for value in stored.values()] == [str, str]


@pytest.mark.req("REC-1")
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"recovery": "execute_all", "recovery_max_occurrences": 3}, "only with recovery=bounded_window"),
        ({"recovery_max_duration": "1h"}, "only with recovery=bounded_window; here it is execute_last"),
        ({"recovery": "bounded_window"}, "needs recovery_max_occurrences or recovery_max_duration"),
    ],
)
def test_contradictory_recovery_bounds_are_refused(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        check_combination(normalize(config, owner="job"), owner="job")


@pytest.mark.req("REC-1")
@override_settings(PUNCTUAL={"recovery": "bounded_window", "recovery_max_occurrences": 5})
@pytest.mark.parametrize(
    "config",
    [{}, {"recovery": "execute_all"}, {"recovery_max_duration": "1h"}, {"recovery": "bounded_window"}],
)
def test_bounds_are_judged_with_what_the_platform_says(config: dict[str, Any]) -> None:
    check_combination(normalize(config, owner="job"), owner="job")
