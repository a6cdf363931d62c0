"""Secret arguments and settings, written by a task wherever it can, are found nowhere in clear text."""

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

from punctual import Cancel, Context, Job, Retry
from punctual.jobs import control
from punctual.jobs.ledger_interface import connected_ledger
from punctual.jobs.redaction import HIDDEN
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.recovery.replay import replay
from punctual.recovery.requester import Requester
from tests.console.fixtures import page, pages, root
from tests.console.paths import lists, page_of
from tests.console.paths import pages as row_pages
from tests.harness import Harness

__all__ = ["pages", "root"]
pytestmark = [pytest.mark.req("OPS-7")]

MARKED, BY_NAME, NESTED = "blue-elephant-42", "green-gecko-7", "red/panda?9"
ARGS = {"recipe": MARKED, "password": BY_NAME, "account": {"keys": [NESTED]}, "table": "orders"}
SECRETS = (MARKED, BY_NAME, NESTED, settings.SECRET_KEY)


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    """The lines that the configured log handler would write."""
    stream = io.StringIO()
    (console,) = [one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler]
    before = console.setStream(stream)
    yield stream
    console.setStream(before or console.stream)


def spill(ctx: Context, how: str) -> None:
    text = f"{how}: {ctx.args} {settings.SECRET_KEY} https://x/?q=red%2Fpanda%3F9"
    ctx.logger.warning("%s", text)
    logging.getLogger("some.library").warning("args %r", ctx.args)
    ctx.heartbeat({"now": text, "deep": [ctx.args["recipe"]]})


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


def stored_texts() -> Iterator[tuple[str, str]]:
    """Every table as text, without the columns that store the arguments."""
    for model in apps.get_models():
        for row in model._default_manager.values():
            row.pop("args", None)
            yield model._meta.label, json.dumps(row, default=str, ensure_ascii=False)


def command_outputs() -> Iterator[tuple[str, str]]:
    one = Occurrence.objects.filter(job__name="leaky").latest("created_at")
    dead = TaskRun.objects.filter(state="dlq").first()
    assert dead
    for words in (
        ("jobs", "list"), ("jobs", "show", "leaky"), ("jobs", "export"),
        ("occurrences", "list"), ("occurrences", "show", one.display_id),
        ("dlq", "list"), ("dlq", "show", dead.display_id),
    ):  # fmt: skip
        for more in ([], ["--json"]):
            output = io.StringIO()
            call_command("punctual", *words, *(more if words[1] != "export" else []), stdout=output)
            yield " ".join([*words, *more]), output.getvalue()


def test_secrets_are_in_no_row_no_page_no_log_and_no_answer(
    harness: Harness, log_stream: io.StringIO, root: Client, client: Client
) -> None:
    declare()
    harness.sync()
    first = connected_ledger().trigger(control.get_job("leaky"), args=ARGS, overrides={}, now=harness.now)
    harness.live(seconds=10)
    replay([first], requester=Requester("me", "again"), now=harness.now)
    harness.live(seconds=10)
    assert Occurrence.objects.filter(job__name="leaky", state="completed_with_errors").count() == 2
    assert Occurrence.objects.get(pk=first).args == ARGS, "the task receives them in clear text"

    found = dict(page_texts(root, client))
    found |= {f"{label} {number}": text for number, (label, text) in enumerate(stored_texts())}
    found |= dict(command_outputs())
    found["log"] = log_stream.getvalue()
    leaks = {(name, word) for name, text in found.items() for word in SECRETS if word in text}
    assert leaks == set()

    tails = " ".join(Attempt.objects.values_list("log", flat=True))
    assert f"'recipe': '{HIDDEN}'" in tails
    assert "'table': 'orders'" in tails, "other arguments stay readable"
    assert f"https://x/?q={HIDDEN}" in tails
    error = Attempt.objects.filter(error_type="ValueError").first()
    assert error
    assert f"KeyError: '{HIDDEN}'" in error.traceback
    assert "hook.failed job=leaky" in found["log"]


def page_texts(root: Client, client: Client) -> Iterator[tuple[str, str]]:
    for name, path in {**lists(), **row_pages()}.items():
        yield name, page(root, path)
    for row in (*Occurrence.objects.all(), *TaskRun.objects.all(), *Attempt.objects.all()):
        yield f"{row._meta.label} {row.pk}", page(root, page_of(row))
    for path in ("/metrics", "/healthz", "/readyz"):
        yield path, client.get(path).content.decode()
