"""`jobs history`, `restore`: versions of a definition."""

import json
from argparse import ArgumentParser
from typing import Any

from punctual.commands.arguments import add_change, change_of
from punctual.commands.job_control import add_name
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs import control
from punctual.jobs.clock import database_now
from punctual.jobs.definition.comparison import field_changes
from punctual.jobs.models import JobVersion, Origin
from punctual.jobs.store.definitions import restore

MAX_VALUE = 60  # characters of a value in a line


def list_versions(options: Options) -> Answer:
    versions = JobVersion.objects.filter(job=control.get_job(options["name"])).order_by("-number")
    return Answer((_version_row(version) for version in versions.iterator(chunk_size=1000)), version_text)


def _version_row(version: JobVersion) -> Row:
    changes = field_changes(version.before, version.after) if version.before else []
    return {
        "version": version.number,
        "at": version.created_at.isoformat(timespec="seconds"),
        "author": version.author,
        "reason": version.reason,
        "changes": [vars(change) for change in changes],
    }


def version_text(row: Row) -> str:
    head = f"{row['version']}  {row['at']}  {row['author']}  {row['reason'] or '-'}"
    return "\n".join([head, *(f"   {describe_change(change)}" for change in row["changes"])])


def describe_change(change: Row) -> str:
    return f"{change['field']}: {_shorten(change['before'])} → {_shorten(change['after'])}"


def _shorten(value: Any) -> str:
    if value is None:
        return "-"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def restore_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("version", type=int, help="the number `jobs history` shows")
    parser.add_argument("--reason", required=True, help="why; kept with the version")
    add_change(parser)


def restore_version(options: Options) -> Answer:
    name, number = options["name"], options["version"]
    change = change_of(options, origin=Origin.FILE, now=database_now(), reason=options["reason"])
    stored = restore(name, number, change)
    result = f"restored version {number}" if stored.changed else f"is as in version {number} already"
    return Answer([{"name": name, "result": result, "version": control.get_job(name).version}])


VERBS = (
    Verb("history", "every version of a job: who, when, why, and what changed", list_versions, add_name),
    Verb("restore", "store an old version's definition as a new version", restore_version, restore_arguments),
)
