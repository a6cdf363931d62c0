"""Verbs for whole fleets: export to a file, apply a file."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from django.core.management.base import CommandError

from jobs import files, fleet
from jobs.changes import changes
from jobs.clock import database_now
from jobs.entries import entries
from jobs.errors import DefinitionError
from jobs.models import Origin
from jobs.policy import PendingDiff, UpdatePolicy
from jobs.progress import Progress
from jobs.registry import registry
from jobs.verbs import Answer, Options, Row, Verb, connect
from jobs.verbs.author import add_change, change_of
from jobs.verbs.versions import described

FATES = ("new", "changed", "preserved", "removed")
SHOWN_FUNCTIONS = 10
SHOWN_INSTANTS = 5


def export_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="jobs to export (default: all)")
    parser.add_argument("--format", metavar="|".join(files.FORMATS), help="default: by the file's suffix")
    parser.add_argument("--output", metavar="FILE", help="write to a file instead of the terminal")


def export(options: Options) -> Answer:
    format_ = files.format_of(options["format"], options["output"])
    document = fleet.exported(options["names"])
    text = files.written(document, format_)
    if not (path := options["output"]):
        return Answer([document], lambda _row: text.removesuffix("\n"), single=True)
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DefinitionError("--output", path, error.strerror or str(error)) from None
    return Answer([{"file": path, "jobs": len(document["jobs"])}], single=True)


def apply_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="JSON or YAML, as `jobs export` writes it")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, change nothing")
    parser.add_argument("--prune", action="store_true", help="remove jobs of earlier files it does not name")
    parser.add_argument("--reason", default="", help="why; kept with every version")
    parser.add_argument("--function", metavar="NAME", help="what trigger definitions shall call")
    add_change(parser)


def apply(options: Options) -> Answer:
    now = database_now()
    reason = options["reason"] or f"applied from {Path(options['file']).name}"
    change = change_of(options, origin=Origin.FILE, now=now, reason=reason)
    read = entries(files.read(options["file"]), function=options["function"])
    planned = fleet.plan(read.found, now=now, prune=options["prune"])
    if problems := (*read.mistakes, *planned.refused, *unresolved(planned)):
        count = "1 mistake" if len(problems) == 1 else f"{len(problems):,} mistakes"
        raise CommandError("\n".join((f"{count}, nothing was written:", *problems)))
    if options["dry_run"]:
        return Answer([previewed(planned, change.policy, now)], preview_text, single=True)
    total = len(planned.new) + len(planned.changed)
    applied = fleet.apply(planned, change, progress=Progress(sys.stderr, total, "applying"))
    return Answer([vars(applied)], counts, single=True)


def previewed(planned: fleet.Plan, policy: UpdatePolicy, now: datetime) -> Row:
    diffs = {diff.job: diff for diff in fleet.previews(planned, policy=policy, now=now)}
    return {
        "new": sorted(item.name for item in planned.new),
        "changed": [
            {
                "name": item.after.name,
                "changes": [vars(one) for one in changes(item.before.dumped(), item.after.dumped())],
                "pending": pending(diffs[item.after.name]),
            }
            for item in sorted(planned.changed, key=lambda item: item.after.name)
        ],
        "preserved": planned.preserved,
        "removed": [
            {"name": row.name, "pending": pending(diffs[row.name])}
            for row in sorted(planned.removed, key=lambda row: row.name)
        ],
    }


def pending(diff: PendingDiff) -> Row:
    instants = {"added": diff.added, "removed": diff.removed, "kept": diff.kept}
    return {fate: [at.isoformat() for at in found] for fate, found in instants.items()}


def preview_text(row: Row) -> str:
    lines = [f"new  {name}" for name in row["new"]]
    for fate in ("changed", "removed"):
        for item in row[fate]:
            lines += [f"{fate}  {item['name']}"]
            lines += [f"   {described(change)}" for change in item.get("changes", ())]
            lines += [f"   pending {word}: {_instants(found)}" for word, found in item["pending"].items()]
    return "\n".join((*lines, f"{counts(row)} (dry run: nothing was written)"))


def _instants(found: list[str]) -> str:
    rest = len(found) - SHOWN_INSTANTS
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(found[:SHOWN_INSTANTS]) + more or "none"


def counts(row: Row) -> str:
    return ", ".join(f"{len(row[fate]):,} {fate}" for fate in FATES)


def unresolved(planned: fleet.Plan) -> Iterator[str]:
    """A function that no code registers could never run; what is stored already is left as it is."""
    known = ", ".join(sorted(registry.functions)[:SHOWN_FUNCTIONS]) or "none"
    for item in (*planned.new, *(changed.after for changed in planned.changed)):
        for task in item.tasks:
            if registry.function(task.function) is None:
                reason = f"no code registers it; registered are {known}"
                yield str(
                    DefinitionError("function", task.function, reason, owner=f"{item.name}/{task.name}")
                )


connect(
    Verb("export", "write jobs as a JSON or YAML file", export, export_arguments),
    Verb("apply", "make the jobs what a file says", apply, apply_arguments),
)
