"""Verbs about versions: history, restore."""

import json
from argparse import ArgumentParser
from typing import Any

from jobs import control
from jobs.changes import changes
from jobs.clock import database_now
from jobs.models import JobVersion, Origin
from jobs.store import restore
from jobs.verbs import Answer, Options, Row, Verb, connect
from jobs.verbs.author import add_change, change_of
from jobs.verbs.operate import named

LONGEST = 60


def history(options: Options) -> Answer:
    versions = JobVersion.objects.filter(job=control.get(options["name"])).order_by("-number")
    return Answer((_version(version) for version in versions.iterator(chunk_size=1000)), text)


def _version(version: JobVersion) -> Row:
    found = changes(version.before, version.after) if version.before else []
    return {
        "version": version.number,
        "at": version.created_at.isoformat(timespec="seconds"),
        "author": version.author,
        "reason": version.reason,
        "changes": [vars(change) for change in found],
    }


def text(row: Row) -> str:
    head = f"{row['version']}  {row['at']}  {row['author']}  {row['reason'] or '-'}"
    return "\n".join([head, *(f"   {described(change)}" for change in row["changes"])])


def described(change: Row) -> str:
    return f"{change['field']}: {_short(change['before'])} → {_short(change['after'])}"


def _short(value: Any) -> str:
    if value is None:
        return "-"
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def restore_arguments(parser: ArgumentParser) -> None:
    named(parser)
    parser.add_argument("version", type=int, help="the number `jobs history` shows")
    parser.add_argument("--reason", required=True, help="why; kept with the version")
    add_change(parser)


def restore_version(options: Options) -> Answer:
    name, number = options["name"], options["version"]
    change = change_of(options, origin=Origin.FILE, now=database_now(), reason=options["reason"])
    stored = restore(name, number, change)
    result = f"restored version {number}" if stored.changed else f"is as in version {number} already"
    return Answer([{"name": name, "result": result, "version": control.get(name).version}])


connect(
    Verb("history", "every version of a job: who, when, why, and what changed", history, named),
    Verb("restore", "store an old version's definition as a new version", restore_version, restore_arguments),
)
