"""Five jobs to watch: a heartbeat, an ETL, a report, a failing job and a slow one."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from punctual import Cancel, Context, HandBack, Job, Retry, scheduled

logger = logging.getLogger("demo")


@scheduled("*/10 * * * * *")
def heartbeat(ctx: Context) -> None:
    """Show every ten seconds that beats, broker and workers are alive."""
    ctx.logger.info("alive, scheduled for %s", ctx.scheduled_for.isoformat())


etl = Job(
    "warehouse-etl",
    "0 * * * * *",
    mode="parallel",
    retry=Retry(3, "4s", backoff=2),
    execution_timeout="50s",
)


@etl.task
def extract_orders(ctx: Context) -> None:
    """Copy yesterday's orders."""
    time.sleep(1.5)
    ctx.logger.info("1204 orders copied")


@etl.task
def extract_customers(ctx: Context) -> None:
    """Copy the customers that changed."""
    time.sleep(0.8)
    ctx.logger.info("87 customers copied")


@etl.task
def extract_prices(ctx: Context) -> None:
    """Fail on every first attempt; the retry a few seconds later succeeds."""
    if ctx.attempt % 2 == 0:
        raise ConnectionError("the price service did not answer")
    ctx.logger.info("312 prices copied on attempt %d", ctx.attempt + 1)


@etl.on_complete
def announce(report: Mapping[str, Any]) -> None:
    """Run when all steps are over, whatever their outcome."""
    logger.info("warehouse %s after %s s", report["outcome"], report["duration"])


report = Job("sales-report", "30 * * * * *", mode="sequential")


@report.task
def collect(ctx: Context) -> None:
    """First step: gather the figures."""
    time.sleep(0.5)
    ctx.logger.info("figures collected")


@report.task
def render(ctx: Context) -> None:
    """Second step: starts once the figures are there."""
    time.sleep(1)
    ctx.logger.info("report rendered")


@report.task
def send(ctx: Context) -> None:
    """Last step: would send the mail."""
    ctx.logger.info("report sent for %s", ctx.scheduled_for.date().isoformat())


@scheduled("20 */2 * * * *", name="broken-import", retry=Retry(2, "2s"))
def import_orders(ctx: Context) -> None:
    """Always fail: two quick retries, then a dead letter."""
    raise LookupError("order 1187 names a product that does not exist")


@scheduled("*/15 * * * * *", name="slow-backup", overlap="skip", task_timeout="40s")
def back_up(ctx: Context) -> None:
    """Take longer than the interval: every other occurrence is skipped, with its reason."""
    for _ in range(100):
        if ctx.stopping:
            raise HandBack("the worker stops; another one runs it again")
        if ctx.canceled:
            raise Cancel("stop requested")
        time.sleep(0.25)
    ctx.logger.info("backup written")
