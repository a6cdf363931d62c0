"""Parallel tasks: one may fail without stopping the others, and a hook receives the report."""

from collections.abc import Mapping
from typing import Any

from punctual import Context, Job, Retry

nightly = Job("nightly-warehouse", "0 2 * * *", mode="parallel", failure_strategy="continue")
reports: list[Mapping[str, Any]] = []


@nightly.task
def orders(ctx: Context) -> None:
    ctx.logger.info("orders of %s copied", ctx.scheduled_for.date())


@nightly.task(retry=Retry(0, "0s"))
def customers(ctx: Context) -> None:
    raise ConnectionError(f"the source for {ctx.scheduled_for.date()} did not answer")


@nightly.task
def close_connections(ctx: Context) -> None:
    ctx.logger.info("closed")


@nightly.on_complete
def remember(report: Mapping[str, Any]) -> None:
    reports.append(report)
