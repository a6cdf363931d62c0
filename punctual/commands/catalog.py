"""List every verb of `manage.py punctual`. A new verb is a function in a module here and one entry below."""

from punctual.commands import (
    dead_letter_verbs,
    doctor,
    job_control,
    job_files,
    job_import,
    job_queries,
    job_versions,
    ledger_verify,
    maintenance,
    occurrence_verbs,
    schedule_explain,
)
from punctual.commands.verb import Group, Verb

GROUPS: tuple[Group, ...] = (
    Group(
        "jobs",
        "look at jobs, act on them, export and apply files of definitions",
        (
            *job_queries.VERBS,
            *job_control.VERBS,
            *job_versions.VERBS,
            *job_files.VERBS,
            *job_import.VERBS,
        ),
    ),
    Group("occurrences", "look at occurrences, cancel, skip and replay them", occurrence_verbs.VERBS),
    Group("dlq", "dead letters: runs that used up their attempts", dead_letter_verbs.VERBS),
    Group("schedule", "explain a schedule text", schedule_explain.VERBS),
    Group("ledger", "compare the ledger with the schedules", ledger_verify.VERBS),
)
SINGLE: tuple[Verb, ...] = (*maintenance.VERBS, *doctor.VERBS)


def all_verbs() -> dict[str, Verb]:
    """Return every verb by the words that call it, such as `jobs list` or `prune`."""
    grouped = {f"{group.name} {verb.name}": verb for group in GROUPS for verb in group.verbs}
    return grouped | {verb.name: verb for verb in SINGLE}
