"""`jobs export`, `apply`: definitions as JSON or YAML files."""

import sys
from argparse import ArgumentParser
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

from django.core.management.base import CommandError

from punctual.commands.arguments import add_change, change_of
from punctual.commands.job_versions import describe_change
from punctual.commands.progress import Progress
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.jobs.clock import database_now
from punctual.jobs.condition import unresolved_hooks
from punctual.jobs.declaration.registry import registry
from punctual.jobs.definition.comparison import field_changes
from punctual.jobs.errors import DefinitionError
from punctual.jobs.files import rollout, syntax
from punctual.jobs.files.entries import read_entries
from punctual.jobs.files.export import export_jobs
from punctual.jobs.models import Origin
from punctual.jobs.store.function_permissions import refused_functions
from punctual.jobs.store.update_policy import PendingDiff, UpdatePolicy

OUTCOMES = ("new", "changed", "preserved", "removed")
MAX_LISTED_FUNCTIONS = 10
MAX_LISTED_INSTANTS = 5


def export_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="jobs to export (default: all)")
    parser.add_argument("--format", metavar="|".join(syntax.FORMATS), help="default: by the file's suffix")
    parser.add_argument("--output", metavar="FILE", help="write to a file instead of the terminal")


def export_file(options: Options) -> Answer:
    format_ = syntax.format_of(options["format"], options["output"])
    document = export_jobs(options["names"])
    text = syntax.format_document(document, format_)
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
    parser.add_argument(
        "--prune", action="store_true", help="remove jobs of earlier files that this file does not name"
    )
    parser.add_argument("--reason", default="", help="why; kept with every version")
    parser.add_argument("--function", metavar="NAME", help="the function that trigger definitions call")
    add_change(parser)


def apply_file(options: Options) -> Answer:
    now = database_now()
    reason = options["reason"] or f"applied from {Path(options['file']).name}"
    change = change_of(options, origin=Origin.FILE, now=now, reason=reason)
    read = read_entries(syntax.read_document(options["file"]), function=options["function"])
    planned = rollout.plan(read.entries, now=now, prune=options["prune"])
    unusable = (*unresolved_functions(planned), *forbidden_functions(planned, change.permissions))
    if problems := (*read.mistakes, *planned.refused, *unusable):
        count = "1 mistake" if len(problems) == 1 else f"{len(problems):,} mistakes"
        raise CommandError("\n".join((f"{count}, nothing was written:", *problems)))
    if options["dry_run"]:
        return Answer([preview(planned, change.policy, now)], preview_text, single=True)
    total = len(planned.new) + len(planned.changed)
    applied = rollout.apply(planned, change, progress=Progress(sys.stderr, total, "applying"))
    return Answer([vars(applied)], counts_text, single=True)


def preview(planned: rollout.Plan, policy: UpdatePolicy | None, now: datetime) -> Row:
    diffs = {diff.job: diff for diff in rollout.previews(planned, policy=policy, now=now)}
    return {
        "new": sorted(item.name for item in planned.new),
        "changed": [
            {
                "name": item.after.name,
                "changes": [
                    vars(change) for change in field_changes(item.before.to_json(), item.after.to_json())
                ],
                "pending": pending_instants(diffs[item.after.name]),
            }
            for item in sorted(planned.changed, key=lambda item: item.after.name)
        ],
        "preserved": planned.preserved,
        "removed": [
            {"name": row.name, "pending": pending_instants(diffs[row.name])}
            for row in sorted(planned.removed, key=lambda row: row.name)
        ],
    }


def pending_instants(diff: PendingDiff) -> Row:
    instants = {"added": diff.added, "removed": diff.removed, "kept": diff.kept}
    return {outcome: [at.isoformat() for at in values] for outcome, values in instants.items()}


def preview_text(row: Row) -> str:
    lines = [f"new  {name}" for name in row["new"]]
    for outcome in ("changed", "removed"):
        for item in row[outcome]:
            lines += [f"{outcome}  {item['name']}"]
            lines += [f"   {describe_change(change)}" for change in item.get("changes", ())]
            lines += [
                f"   pending {word}: {_list_instants(instants)}" for word, instants in item["pending"].items()
            ]
    return "\n".join((*lines, f"{counts_text(row)} (dry run: nothing was written)"))


def _list_instants(instants: list[str]) -> str:
    rest = len(instants) - MAX_LISTED_INSTANTS
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(instants[:MAX_LISTED_INSTANTS]) + more or "none"


def counts_text(row: Row) -> str:
    return ", ".join(f"{len(row[outcome]):,} {outcome}" for outcome in OUTCOMES)


def unresolved_functions(planned: rollout.Plan) -> Iterator[str]:
    """Yield an error for each function and hook of a new or changed job that no code registers."""
    known = ", ".join(sorted(registry.functions)[:MAX_LISTED_FUNCTIONS]) or "none"
    for item in (*planned.new, *(changed.after for changed in planned.changed)):
        for task in item.tasks:
            if registry.function(task.function) is None:
                reason = f"no code registers it; registered are {known}"
                yield str(
                    DefinitionError("function", task.function, reason, owner=f"{item.name}/{task.name}")
                )
        yield from (f"{item.name}: {error}" for error in unresolved_hooks(item.config))


def forbidden_functions(planned: rollout.Plan, permissions: Collection[str]) -> Iterator[str]:
    """Yield an error for each function of a new or changed job that a file may not use."""
    changes = [(item, None) for item in planned.new]
    for after, before in (*changes, *((item.after, item.before) for item in planned.changed)):
        for error in refused_functions(after, permissions, before=before):
            yield f"{error}; --allow-messages accepts it"


VERBS = (
    Verb("export", "write jobs as a JSON or YAML file", export_file, export_arguments),
    Verb("apply", "make the jobs what a file says", apply_file, apply_arguments),
)
