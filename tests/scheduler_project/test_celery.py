"""Beats and workers log at LOG_LEVEL, however they are started."""

import subprocess
import sys
from os import environ

import click
import pytest

from scheduler_project.celery import LOG_LEVEL_VARIABLES, apply_log_level

pytestmark = pytest.mark.req("OPS-6")

SHOW = """
import click, sys
from celery.bin import beat, celery, worker
for command in (beat.beat, worker.worker):
    command.callback = lambda loglevel, **_: print(loglevel)
sys.argv[0] = "celery"
celery.main()
"""


@pytest.mark.parametrize("program", ["beat", "worker"])
@pytest.mark.parametrize(
    ("said", "options", "level"),
    [
        ({}, [], 20),
        ({"LOG_LEVEL": "error"}, [], 40),
        ({"LOG_LEVEL": "error"}, ["--loglevel", "DEBUG"], 10),
    ],
)
def test_celery_s_programs_log_at_log_level_unless_told_otherwise(
    program: str, said: dict[str, str], options: list[str], level: int
) -> None:
    env = {key: value for key, value in environ.items() if key not in (*LOG_LEVEL_VARIABLES, "LOG_LEVEL")}
    argv = [sys.executable, "-c", SHOW, "-A", "scheduler_project", program, *options]
    done = subprocess.run(argv, env=env | said, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == [str(level)], done.stderr


def test_children_of_other_programs_do_not_inherit_it() -> None:
    env: dict[str, str] = {}
    apply_log_level(env)
    assert env == {}
    with click.Context(click.Command("celery")):
        apply_log_level(env)
    assert set(env) == set(LOG_LEVEL_VARIABLES)
