"""One task with a schedule: every ten minutes in Berlin's time zone, retried when it fails."""

from punctual import Context, Retry, scheduled


@scheduled("TZ=Europe/Berlin */10 * * * *", retry=Retry(2, "5s", backoff=2))
def refresh_prices(ctx: Context) -> None:
    """Use `ctx.scheduled_for`, the instant this run is for, and not the current time."""
    ctx.logger.info("prices as of %s, attempt %d", ctx.scheduled_for.isoformat(), ctx.attempt + 1)
