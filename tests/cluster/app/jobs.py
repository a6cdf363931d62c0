"""Jobs whose every execution leaves a row behind.

All of them allow overlap: on a slow machine an instant may outlast the next, and it shall still run.
"""

from jobs import Job, Retry, scheduled
from jobs.clock import database_now
from jobs.context import Context
from jobs.ids import parsed
from tests.cluster.app.models import Effect

QUICKLY = Retry(5, "1s")


def leave_effect(ctx: Context) -> None:
    source = f"{ctx.job}/{ctx.task}"
    run_id = parsed("run", ctx.run_id)
    Effect.objects.create(source=source, run_id=run_id, attempt=ctx.attempt, at=database_now())


@scheduled("* * * * * *", name="each-second", overlap="allow", retry=QUICKLY)
def each_second(ctx: Context) -> None:
    leave_effect(ctx)


fan_out = Job("fan-out", "*/2 * * * * *", mode="parallel", overlap="allow", retry=QUICKLY)


@fan_out.task
def left(ctx: Context) -> None:
    leave_effect(ctx)


@fan_out.task
def middle(ctx: Context) -> None:
    leave_effect(ctx)


@fan_out.task
def right(ctx: Context) -> None:
    leave_effect(ctx)


in_order = Job("in-order", "*/3 * * * * *", overlap="allow", retry=QUICKLY)


@in_order.task
def first(ctx: Context) -> None:
    leave_effect(ctx)


@in_order.task
def second(ctx: Context) -> None:
    leave_effect(ctx)


@in_order.task
def third(ctx: Context) -> None:
    leave_effect(ctx)
