"""Every command shows examples that it would take, and tells programs the same as people."""

import io
import json
import shlex
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command, load_command_class

from jobs.registry import registry
from jobs.verbs import VERBS
from jobs.verbs.examples import EXAMPLES
from recovery.verbs import deadletters, ledger, occurrences

pytestmark = pytest.mark.req("OPS-3")

APPS = {"jobs": "jobs", "occurrences": "recovery", "dlq": "recovery", "ledger": "recovery"}
SINGLE = ("backfill", "prune", "recover", "reap", "resend", "settle")
NOBODY = f"occ_{UUID(int=0)}"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with registry.isolated():
        yield


def verbs() -> set[str]:
    found = {
        "jobs": VERBS,
        "occurrences": occurrences.VERBS,
        "dlq": deadletters.VERBS,
        "ledger": ledger.VERBS,
    }
    return {f"{command} {verb}" for command, names in found.items() for verb in names} | set(SINGLE)


def test_every_verb_has_an_example() -> None:
    load_command_class("jobs", "jobs")
    assert set(EXAMPLES) == verbs()


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_understood(line: str) -> None:
    name, *words = shlex.split(line.partition(" > ")[0])
    command = load_command_class(APPS.get(name, "recovery"), name)
    command.create_parser("manage.py", name).parse_args(words)


def test_help_shows_the_examples_and_what_the_exit_code_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("jobs", "trigger", "--help")
    text = capsys.readouterr().out
    assert "  manage.py jobs trigger nightly-etl\n" in text
    assert "exit code: 0 done, 1 refused" in text


@pytest.mark.django_db
@pytest.mark.parametrize("words", ["jobs list", "occurrences list", "dlq list", "prune"])
def test_nothing_found_is_said_beside_the_lines(words: str) -> None:
    out, beside = io.StringIO(), io.StringIO()
    call_command(*words.split(), stdout=out, stderr=beside)
    assert (out.getvalue(), beside.getvalue()) == ("", "nothing found\n")
    call_command(*words.split(), "--json", stdout=out, stderr=beside)
    assert json.loads(out.getvalue()) == []


@pytest.mark.django_db
@pytest.mark.parametrize("verb", ["cancel", "skip", "replay"])
def test_an_id_nobody_knows_is_refused_before_anything_is_done(verb: str) -> None:
    with pytest.raises(CommandError, match=f"{NOBODY}: no such occurrence"):
        call_command("occurrences", verb, NOBODY)


@pytest.mark.django_db
@pytest.mark.parametrize("words", ["dlq list -n -1", "occurrences list -n 0", "jobs next x -n 0"])
def test_a_count_out_of_bounds_names_the_bounds(words: str) -> None:
    with pytest.raises(CommandError, match="expected 1 to"):
        call_command(*words.split())
