"""Secret arguments and secrets of settings, planted wherever a function can put them: found nowhere."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client

from jobs import Cancel, Context, Job, Retry, control
from jobs.ledger import connected
from jobs.secrecy import HIDDEN
from occurrences.models import Attempt, Occurrence, TaskRun
from recovery.audit import Asked
from recovery.replay import replay
from tests.console.pages import page, pages, root
from tests.console.paths import lists, page_of
from tests.console.paths import pages as row_pages
from tests.harness import Harness

__all__ = ["pages", "root"]
pytestmark = [pytest.mark.req("OPS-7")]

MARKED, BY_NAME, NESTED = "blue-elephant-42", "green-gecko-7", "red/panda?9"
ARGS = {"recipe": MARKED, "password": BY_NAME, "account": {"keys": [NESTED]}, "table": "orders"}
SECRETS = (MARKED, BY_NAME, NESTED, settings.SECRET_KEY)


@pytest.fixture
def heard() -> Iterator[io.StringIO]:
    """What the handler of the settings would have written."""
    stream = io.StringIO()
    (console,) = [one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler]
    before = console.setStream(stream)
    yield stream
    console.setStream(before or console.stream)


def spill(ctx: Context, how: str) -> None:
    told = f"{how}: {ctx.args} {settings.SECRET_KEY} https://x/?q=red%2Fpanda%3F9"
    ctx.logger.warning("%s", told)
    logging.getLogger("some.library").warning("args %r", ctx.args)
    ctx.heartbeat({"now": told, "deep": [ctx.args["recipe"]]})


def declare() -> None:
    leaky = Job(
        "leaky",
        "@once 2999-01-01T00:00:00Z",
        mode="parallel",
        failure_strategy="continue",
        retry=Retry(0),
        secret_args=["recipe", "account"],
    )

    @leaky.task
    def speaks(ctx: Context) -> None:
        spill(ctx, "speaks")

    @leaky.task
    def raises(ctx: Context) -> None:
        spill(ctx, "raises")
        try:
            {}[ctx.args["recipe"]]
        except KeyError as error:
            raise ValueError(f"{ctx.args} {settings.SECRET_KEY}") from error

    @leaky.task
    def gives_up(ctx: Context) -> None:
        raise Cancel(f"because of {ctx.args['account']['keys'][0]}")

    @leaky.task(transactional=True)
    def breaks(ctx: Context) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT CAST(%s AS integer) / 0", [ctx.args["recipe"]])

    @leaky.on_complete
    def tells(report: object) -> None:
        raise ValueError(f"{report} {settings.SECRET_KEY}")


def stored() -> Iterator[tuple[str, str]]:
    """Every table as text, but for the arguments themselves, which have to be somewhere."""
    for model in apps.get_models():
        for row in model._default_manager.values():
            row.pop("args", None)
            yield model._meta.label, json.dumps(row, default=str, ensure_ascii=False)


def commands() -> Iterator[tuple[str, str]]:
    one = Occurrence.objects.filter(job__name="leaky").latest("created_at")
    dead = TaskRun.objects.filter(state="dlq").first()
    assert dead
    for words in (
        ("jobs", "list"), ("jobs", "show", "leaky"), ("jobs", "export"),
        ("occurrences", "list"), ("occurrences", "show", one.shown_id),
        ("dlq", "list"), ("dlq", "show", dead.shown_id),
    ):  # fmt: skip
        for more in ([], ["--json"]):
            output = io.StringIO()
            call_command(*words, *(more if words[1] != "export" else []), stdout=output)
            yield " ".join([*words, *more]), output.getvalue()


def test_what_is_secret_is_in_no_row_no_page_no_log_and_no_answer(
    harness: Harness, heard: io.StringIO, root: Client, client: Client
) -> None:
    declare()
    harness.sync()
    first = connected().trigger(control.get("leaky"), args=ARGS, overrides={}, now=harness.now)
    harness.live(seconds=10)
    replay([first], asked=Asked("me", "again"), now=harness.now)
    harness.live(seconds=10)
    assert Occurrence.objects.filter(job__name="leaky", state="completed_with_errors").count() == 2
    assert Occurrence.objects.get(pk=first).args == ARGS, "the function needs them as they are"

    found = dict(shown(root, client))
    found |= {f"{label} {number}": text for number, (label, text) in enumerate(stored())}
    found |= dict(commands())
    found["log"] = heard.getvalue()
    leaks = {(name, word) for name, text in found.items() for word in SECRETS if word in text}
    assert leaks == set()

    tails = " ".join(Attempt.objects.values_list("log", flat=True))
    assert f"'recipe': '{HIDDEN}'" in tails
    assert "'table': 'orders'" in tails, "what is not secret stays"
    assert f"https://x/?q={HIDDEN}" in tails
    error = Attempt.objects.filter(error_type="ValueError").first()
    assert error
    assert f"KeyError: '{HIDDEN}'" in error.traceback
    assert "hook.failed job=leaky" in found["log"]


def shown(root: Client, client: Client) -> Iterator[tuple[str, str]]:
    for name, path in {**lists(), **row_pages()}.items():
        yield name, page(root, path)
    for row in (*Occurrence.objects.all(), *TaskRun.objects.all(), *Attempt.objects.all()):
        yield f"{row._meta.label} {row.pk}", page(root, page_of(row))
    for path in ("/metrics", "/healthz", "/readyz"):
        yield path, client.get(path).content.decode()
