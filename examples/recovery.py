"""After an outage: the hours of the last day are made up for, older ones are recorded as missed."""

from jobs import Context, Job

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
    """Its database effects and its success are one transaction: billed once, whatever crashes."""
    billed.append(ctx.scheduled_for.isoformat())
