"""Distinguish what active occurrences are doing: their state is `running` from the first claim to the end."""

from django.db.models import Case, Exists, OuterRef, TextChoices, Value, When

from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.querysets import OccurrenceQuerySet
from punctual.occurrences.states import RUN_HELD, RunState


class Activity(TextChoices):
    RUNNING = "running", "running"  # a worker holds one of its runs
    RETRYING = "retrying", "waiting to retry"  # no worker does, and a failed run waits for its next attempt
    DISPATCHED = "dispatched", "dispatched"  # no worker does; its next run waits for one


def activity_of_occurrence() -> Case:
    """The `Activity` of an active occurrence, as a column."""
    runs = TaskRun.objects.filter(occurrence=OuterRef("pk"))
    return Case(
        When(Exists(runs.filter(state__in=RUN_HELD)), then=Value(Activity.RUNNING)),
        When(Exists(runs.filter(state=RunState.RETRY)), then=Value(Activity.RETRYING)),
        default=Value(Activity.DISPATCHED),
    )


def occurrences_doing(activity: Activity) -> OccurrenceQuerySet:
    rows = Occurrence.objects.active().alias(activity=activity_of_occurrence())
    return rows.filter(activity=activity)
