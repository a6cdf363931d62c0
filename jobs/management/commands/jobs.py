"""`manage.py jobs list|sync|next|trigger|pause|resume` → the same functions the admin uses."""

import json
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Prefetch

from jobs import control
from jobs.clock import database_now
from jobs.condition import condition
from jobs.errors import PunctualError
from jobs.ids import shown
from jobs.models import Job, Task
from jobs.sync import sync
from schedules import ScheduleError

MOST_NEXT = 1000


class Command(BaseCommand):
    help = "List, sync, trigger, pause and resume jobs. Example: manage.py jobs trigger nightly-etl"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        machine = ArgumentParser(add_help=False)
        machine.add_argument("--json", action="store_true", help="print JSON")
        for verb, text in (
            ("list", "every job and its state"),
            ("sync", "write declared jobs to the database"),
        ):
            verbs.add_parser(verb, help=text, parents=[machine])
        for verb, text in (
            ("next", "the next instants of a job"),
            ("trigger", "run a job now"),
            ("pause", "record instants as skipped until resumed"),
            ("resume", "let a paused job run again"),
        ):
            child = verbs.add_parser(verb, help=text, parents=[machine])
            child.add_argument("name", help="the job's name")
            if verb == "next":
                child.add_argument("-n", type=int, default=5, help="how many (default 5)")
            if verb == "trigger":
                child.add_argument("--args", default="{}", help="arguments for ctx.args, a JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.show(getattr(self, options["verb"])(options), as_json=options["json"])
        except (PunctualError, ScheduleError) as error:
            raise CommandError(str(error)) from error

    def show(self, rows: Iterable[dict[str, Any]], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(list(rows), default=str, indent=2))
            return
        for row in rows:
            self.stdout.write("  ".join(str(value) for value in row.values()))

    def list(self, options: dict[str, Any]) -> Iterable[dict[str, Any]]:
        jobs = Job.objects.prefetch_related(Prefetch("tasks", Task.objects.current()))
        for job in jobs.iterator(chunk_size=1000):
            yield {
                "name": job.name,
                "state": condition(job, job.tasks.all()),
                "schedule": job.schedule,
                "version": job.version,
            }

    def sync(self, options: dict[str, Any]) -> Iterable[dict[str, Any]]:
        for fate, names in vars(sync(database_now())).items():
            yield {"fate": fate, "count": len(names), "jobs": ", ".join(names)}

    def next(self, options: dict[str, Any]) -> Iterable[dict[str, Any]]:
        count = options["n"]
        if not 1 <= count <= MOST_NEXT:
            raise CommandError(f"-n {count}: expected 1 to {MOST_NEXT}")
        for instant in control.next_runs(options["name"], count):
            yield {"at": instant.isoformat()}

    def trigger(self, options: dict[str, Any]) -> Iterable[dict[str, Any]]:
        id_ = control.trigger(options["name"], args=arguments(options["args"]))
        yield {"occurrence": shown("occ", id_)}

    def pause(self, options: dict[str, Any]) -> Iterable[dict[str, Any]]:
        changed = control.pause(options["name"])
        yield {"name": options["name"], "result": "paused" if changed else "was paused already"}

    def resume(self, options: dict[str, Any]) -> Iterable[dict[str, Any]]:
        changed = control.resume(options["name"])
        yield {"name": options["name"], "result": "resumed" if changed else "was not paused"}


def arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise CommandError(f"--args {text!r}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CommandError(f"--args {text!r}: expected a JSON object such as {{}}")
    return value
