"""Every Python block of the documentation runs, with the results that its page describes."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import call_command

from punctual.jobs.declaration.registry import registry
from punctual.occurrences.models import Cursor, Occurrence, TaskRun
from tests.docs.markdown import Page, page, pages
from tests.docs.snippets import run
from tests.harness import Harness, states_of

WITH_CODE = [item for item in pages() if item.blocks_in("python", "pycon")]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.path)
def test_the_code_of_a_page_runs(page: Page, harness: Harness) -> None:
    run(page, harness)


def test_the_readme_s_example_does_what_its_comments_say(harness: Harness) -> None:
    harness.now = harness.now.replace(hour=0, minute=59, second=58)  # 01:59:58 in Berlin
    names = run(page("README.md"), harness)
    harness.live(seconds=35)

    assert harness.finished("heartbeat") == ["completed"]
    assert [run.task.name for run in harness.runs("nightly-etl")] == ["extract", "load", "close_connections"]
    assert states_of(harness.runs("nightly-etl")) == ["success"] * 3
    assert states_of(harness.attempts("nightly-etl"))[:2] == ["failed", "success"], "retried after 30 s"
    assert [report["outcome"] for report in names["reports"]] == ["completed"]


def test_the_tutorial_s_jobs_end_as_the_tutorial_says(harness: Harness) -> None:
    run(page("docs/tutorial.md"), harness)
    harness.live(seconds=45)

    assert set(harness.finished("greet")) == {"completed"}
    assert harness.finished("invoices") == ["failed"]
    assert states_of(harness.runs("invoices")) == ["success", "dlq", "success"]
    book = harness.runs("invoices")[1]
    assert (book.attempts_made, book.reason) == (3, "failed after 3 attempts")
    assert book.error == "ValueError: invoice 4711 has no customer"


@pytest.mark.req("TSK-6")
def test_the_tutorial_s_dead_letter_is_replayed_once_its_function_is_mended(harness: Harness) -> None:
    names = run(page("docs/tutorial.md"), harness)
    harness.live(seconds=45)
    key = f"{names['book'].__module__}.{names['book'].__qualname__}"
    registry.functions[key] = replace(registry.functions[key], call=lambda ctx: ctx.logger.info("booked"))
    box = next(
        block for block in page("docs/tutorial.md").blocks_in("sh") if "manage.py punctual dlq" in block.text
    )
    for line in box.text.splitlines():
        if "manage.py" in line:
            call_command(*shlex.split(line.partition("manage.py ")[2]))
    # Commands read the real clock.
    Occurrence.objects.filter(cause="replay").update(run_at=harness.now)
    Cursor.objects.filter(catch_up_at__isnull=False).update(catch_up_at=harness.now)
    harness.live(seconds=5)
    assert not TaskRun.objects.dead().exists()
    again = Occurrence.objects.get(cause="replay")
    assert (again.state, again.request_reason) == ("completed", "customer added")
    assert again.parent
    assert again.parent.state == "failed"


def tutorial_commands() -> list[Any]:
    """Return the arguments of the `manage.py punctual jobs …` lines."""
    box = next(
        block for block in page("docs/tutorial.md").blocks_in("sh") if "manage.py punctual jobs" in block.text
    )
    lines = [line.partition("manage.py ")[2] for line in box.text.splitlines() if "manage.py" in line]
    return [pytest.param(line.split(), id=line) for line in lines]


@pytest.mark.parametrize("words", tutorial_commands())
def test_the_tutorial_s_commands_run(
    harness: Harness, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(page("docs/tutorial.md"), harness)
    call_command(*words)
    assert capsys.readouterr().out


def test_a_page_leaves_no_job_behind(harness: Harness) -> None:
    assert not registry.jobs
