import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_project.up.programs import Options, environment_for, programs, shutdown_grace

OPTIONS = Options(
    host="127.0.0.1", port=8000, beats=2, workers=1, concurrency=4, flower_port=5555, demo=False
)
PROJECT, VAR = Path("/project"), Path("/data")


def names(options: Options) -> list[str]:
    return [program.name for program in programs(options)]


def environment(base: dict[str, str], options: Options = OPTIONS) -> dict[str, str]:
    return environment_for(base, options, project=PROJECT, var=VAR)


@pytest.mark.req("OPS-1")
def test_two_beats_a_worker_web_and_flower_by_default() -> None:
    assert names(OPTIONS) == ["beat-1", "beat-2", "worker-1", "web", "flower"]


def test_options_set_how_many_beats_and_workers_run() -> None:
    options = replace(OPTIONS, beats=1, workers=3, flower_port=None)
    assert names(options) == ["beat-1", "worker-1", "worker-2", "worker-3", "web"]


def test_everything_runs_in_this_virtualenv() -> None:
    for program in programs(OPTIONS):
        assert program.argv[:2] == (sys.executable, "-m")


def test_node_names_differ_also_between_two_ups_on_one_broker() -> None:
    here, there = replace(OPTIONS, workers=2), replace(OPTIONS, workers=2, port=8001)
    workers = [p for options in (here, there) for p in programs(options) if "worker" in p.name]
    hostnames = {program.argv[program.argv.index("--hostname") + 1] for program in workers}
    assert len(hostnames) == 4


def test_flower_stays_on_the_loopback_interface_whatever_the_host() -> None:
    flower = programs(replace(OPTIONS, host="0.0.0.0"))[-1]  # noqa: S104
    assert "--address=127.0.0.1" in flower.argv


@pytest.mark.req("OPS-1")
def test_the_demo_is_added_to_the_apps_of_the_children() -> None:
    demo = replace(OPTIONS, demo=True)
    assert environment({}, demo)["PUNCTUAL_APPS"] == "examples.demo"
    assert environment({"PUNCTUAL_APPS": "shop,examples.demo"}, demo)["PUNCTUAL_APPS"] == "shop,examples.demo"
    assert "PUNCTUAL_APPS" not in environment({})


def test_children_share_the_data_folder_and_find_the_project() -> None:
    env = environment({"PYTHONPATH": "/mine", "SHOP": "kept"})
    assert env["PUNCTUAL_VAR"] == "/data"
    assert env["PYTHONPATH"] == "/project:/mine"
    assert env["SHOP"] == "kept"


def test_hosts_are_opened_for_this_machine_only_and_only_when_unset() -> None:
    assert environment({})["ALLOWED_HOSTS"] == "localhost,127.0.0.1,[::1]"
    assert environment({"ALLOWED_HOSTS": "example.org"})["ALLOWED_HOSTS"] == "example.org"
    assert "ALLOWED_HOSTS" not in environment({}, replace(OPTIONS, host="192.0.2.1"))


@pytest.mark.req("EXE-9")
@pytest.mark.parametrize(("grace", "expected"), [(30, "25s"), (6, "5s"), (1, "1s")])
def test_a_worker_has_handed_back_before_up_kills_it(grace: int, expected: str) -> None:
    assert shutdown_grace(grace) == expected
