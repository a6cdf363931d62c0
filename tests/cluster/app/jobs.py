"""Jobs that write a row at each execution.

All of them allow overlap: on a slow machine an occurrence may still run when the next one is due.
"""

from punctual import Job, Retry, scheduled
from punctual.jobs.clock import database_now
from punctual.jobs.context import Context
from punctual.jobs.ids import parse_id
from tests.cluster.app.models import Effect

QUICK_RETRY = Retry(5, "1s")


def write_effect(ctx: Context) -> None:
    source = f"{ctx.job}/{ctx.task}"
    run_id = parse_id("run", ctx.run_id)
    Effect.objects.create(source=source, run_id=run_id, attempt=ctx.attempt, at=database_now())


@scheduled("* * * * * *", name="each-second", overlap="allow", retry=QUICK_RETRY)
def each_second(ctx: Context) -> None:
    write_effect(ctx)


fan_out = Job("fan-out", "*/2 * * * * *", mode="parallel", overlap="allow", retry=QUICK_RETRY)


@fan_out.task
def left(ctx: Context) -> None:
    write_effect(ctx)


@fan_out.task
def middle(ctx: Context) -> None:
    write_effect(ctx)


@fan_out.task
def right(ctx: Context) -> None:
    write_effect(ctx)


in_order = Job("in-order", "*/3 * * * * *", overlap="allow", retry=QUICK_RETRY)


@in_order.task
def first(ctx: Context) -> None:
    write_effect(ctx)


@in_order.task
def second(ctx: Context) -> None:
    write_effect(ctx)


@in_order.task
def third(ctx: Context) -> None:
    write_effect(ctx)
