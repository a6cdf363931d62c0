"""A run → the run of the same task in the job's occurrence before it, for `ctx.previous_run`."""

from jobs.context import PreviousRun
from occurrences.models import Occurrence, TaskRun


def previous_run(run: TaskRun, occurrence: Occurrence) -> PreviousRun | None:
    earlier = TaskRun.objects.filter(
        task=run.task_id,
        occurrence__job=occurrence.job_id,
        occurrence__scheduled_for__lt=occurrence.scheduled_for,
    )
    found = earlier.select_related("occurrence").order_by("-occurrence__scheduled_for", "-id").first()
    if found is None:
        return None
    return PreviousRun(
        run_id=found.shown_id,
        scheduled_for=found.occurrence.scheduled_for,
        state=str(found.state),
        finished_at=found.finished_at,
    )
