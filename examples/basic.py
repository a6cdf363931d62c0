"""One task, one line of schedule: every ten minutes, in Berlin's time, tried again when it fails."""

from jobs import Context, Retry, scheduled


@scheduled("TZ=Europe/Berlin */10 * * * *", retry=Retry(2, "5s", backoff=2))
def refresh_prices(ctx: Context) -> None:
    """`ctx` tells which instant this run is for: work on that, not on now."""
    ctx.logger.info("prices as of %s, attempt %d", ctx.scheduled_for.isoformat(), ctx.attempt + 1)
