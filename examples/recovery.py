"""Recovery after an outage: the last three hours run later, older ones are recorded as missed."""

from punctual import Context, Job

hourly = Job(
    "hourly-billing",
    "0 * * * *",
    recovery="bounded_window",
    recovery_max_duration="3h",
    overlap="queue",
)
billed: list[str] = []


@hourly.task(transactional=True)
def bill(ctx: Context) -> None:
    """Bill once: the database effects and the success are one transaction, whatever crashes."""
    billed.append(ctx.scheduled_for.isoformat())
