"""Rows of django-celery-beat for the tests of the adapter."""

from typing import Any
from zoneinfo import ZoneInfo

from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask


def periodic_task(name: str = "report", **columns: Any) -> Any:
    """An unsaved PeriodicTask: every hour unless the columns set another schedule."""
    if not {"crontab", "interval", "clocked", "solar"} & set(columns):
        columns["crontab"] = CrontabSchedule(minute="0", timezone=ZoneInfo("UTC"))
    return PeriodicTask(name=name, **{"task": "shop.report", "one_off": "clocked" in columns} | columns)


def saved_periodic_task(name: str = "report", **columns: Any) -> Any:
    row = periodic_task(name, **columns)
    for kind in ("crontab", "interval", "clocked", "solar"):
        if schedule := getattr(row, kind):
            schedule.save()
            setattr(row, kind, schedule)
    row.save()
    return row


def cron(**fields: Any) -> Any:
    zone = ZoneInfo(fields.pop("timezone", "UTC"))
    return CrontabSchedule(**fields, timezone=zone)


def every(count: int, period: str) -> Any:
    return IntervalSchedule(every=count, period=period)
