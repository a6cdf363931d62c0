"""Every verb shows examples that it accepts, and gives programs the same answer as people."""

import io
import json
import shlex
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command, load_command_class

from punctual.commands.catalog import all_verbs
from punctual.commands.help_examples import EXAMPLES
from punctual.jobs.declaration.registry import registry

pytestmark = pytest.mark.req("OPS-3")

UNKNOWN_ID = f"occ_{UUID(int=0)}"


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[None]:
    with registry.isolated():
        yield


def test_every_verb_has_an_example() -> None:
    assert EXAMPLES.keys() == all_verbs().keys()


@pytest.mark.parametrize(
    ("verb", "line"), [(verb, line) for verb, lines in EXAMPLES.items() for line in lines]
)
def test_an_example_is_accepted_by_its_verb(verb: str, line: str) -> None:
    words = shlex.split(line.partition(" > ")[0].partition(" || ")[0])
    parser = load_command_class("punctual", "punctual").create_parser("manage.py", "punctual")
    assert parser.parse_args(words).chosen is all_verbs()[verb]


def test_help_shows_the_examples_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("punctual", "jobs", "trigger", "--help")
    text = capsys.readouterr().out
    assert "  manage.py punctual jobs trigger nightly-etl\n" in text
    assert "exit code: 0 done, 1 refused" in text


@pytest.mark.django_db
@pytest.mark.parametrize("words", ["jobs list", "occurrences list", "dlq list", "prune"])
def test_an_empty_answer_is_reported_on_standard_error(words: str) -> None:
    out, error = io.StringIO(), io.StringIO()
    call_command("punctual", *words.split(), stdout=out, stderr=error)
    assert (out.getvalue(), error.getvalue()) == ("", "nothing found\n")
    call_command("punctual", *words.split(), "--json", stdout=out, stderr=error)
    assert json.loads(out.getvalue()) == []


@pytest.mark.django_db
@pytest.mark.parametrize("verb", ["cancel", "skip", "replay"])
def test_an_unknown_id_is_refused_before_anything_is_done(verb: str) -> None:
    with pytest.raises(CommandError, match=f"{UNKNOWN_ID}: no such occurrence"):
        call_command("punctual", "occurrences", verb, UNKNOWN_ID)


@pytest.mark.django_db
@pytest.mark.parametrize("words", ["dlq list -n -1", "occurrences list -n 0", "jobs next x -n 0"])
def test_a_count_out_of_bounds_names_the_bounds(words: str) -> None:
    with pytest.raises(CommandError, match="expected 1 to"):
        call_command("punctual", *words.split())
