"""Translate a PeriodicTask of django-celery-beat into a job that fires at the same instants (OCC-10).

A schedule that cannot be expressed exactly is refused with the reason. Crontab fields are expanded by
Celery's own parser; the author's text is kept where Chronex gives it the same meaning. An interval counts
from the import, as it would count from a restart of the beat.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from celery import current_app
from celery.schedules import ParseException
from celery.schedules import crontab as CeleryCrontab  # noqa: N812 - a class in lower case
from django.conf import settings
from kombu.utils.json import dumps, loads

from punctual.jobs.config.bounded_duration import format_duration
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError
from punctual.schedules.chronex.numeric_fields import (
    HOUR,
    MINUTE,
    MONTH,
    MONTH_DAY,
    WEEK_DAY,
    Domain,
    parse_field,
)

MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
KINDS = ("crontab", "interval", "clocked", "solar")
ROUTING = ("queue", "exchange", "routing_key", "priority")
FIELDS = {"minute": MINUTE, "hour": HOUR, "day_of_month": MONTH_DAY, "month_of_year": MONTH}


def definition_of(row: Any, *, function: str, now: datetime) -> Definition:
    """`function` is the registered function that sends the message. DefinitionError says why not."""
    task = {"name": "send", "function": function}
    data = {"name": row.name, "schedule": schedule_of(row, now), "enabled": row.enabled, "tasks": [task]}
    return Definition.load(data | {"metadata": message_of(row)})


def message_of(row: Any) -> dict[str, str]:
    """Metadata for `importer.send`, as texts; arguments keep their JSON."""
    options = {key: getattr(row, key) for key in ROUTING if getattr(row, key) is not None}
    options["headers"] = {**_json(row, "headers", dict), "periodic_task_name": row.name}
    if row.expires or row.expire_seconds:
        options["expires"] = row.expires or row.expire_seconds
    return {
        "celery_task": row.task,
        "celery_args": dumps(_json(row, "args", list)),
        "celery_kwargs": dumps(_json(row, "kwargs", dict)),
        "celery_options": dumps(options),
    }


def schedule_of(row: Any, now: datetime) -> str:
    kinds = [kind for kind in KINDS if getattr(row, kind) is not None]
    if len(kinds) != 1:
        raise DefinitionError("schedule", kinds, f"expected exactly one of {', '.join(KINDS)}")
    if row.one_off and row.total_run_count:
        raise DefinitionError("one_off", True, "it has already run")  # noqa: FBT003 - a value
    if row.expires and row.expires <= now:
        raise DefinitionError("expires", _text(row.expires), "it has expired")
    writers = {"crontab": _crontab, "interval": _interval, "clocked": _clocked, "solar": _solar}
    return writers[kinds[0]](row, now)


def _crontab(row: Any, _now: datetime) -> str:
    cron = row.crontab
    texts = {name: str(getattr(cron, name)).replace(" ", "") for name in (*FIELDS, "day_of_week")}
    try:
        expanded: Any = CeleryCrontab(**texts)
    except (ValueError, ParseException) as error:
        raise DefinitionError("crontab", str(cron), f"Celery cannot read it: {error}") from None
    fields = {name: _field(domain, texts[name], getattr(expanded, name)) for name, domain in FIELDS.items()}
    week_day = _field(WEEK_DAY, texts["day_of_week"], expanded.day_of_week)
    if fields["day_of_month"] != "*" and week_day != "*":
        reason = "Celery fires when day of month AND day of week match, Chronex when either does; make one *"
        raise DefinitionError("crontab", " ".join(texts.values()), reason)
    return f"TZ={_zone(cron)} {' '.join((*fields.values(), week_day))}{_options(row)}"


def _field(domain: Domain, text: str, values: set[int]) -> str:
    """A star for all values, the author's text where Chronex reads the same from it, else the numbers."""
    if len(values) == domain.size:
        return "*"
    field = parse_field(domain, text)
    same = not field.problems and field.mask == sum(1 << value for value in values)
    return text if same else ",".join(str(value) for value in sorted(values))


def _zone(cron: Any) -> str:
    aware = getattr(settings, "DJANGO_CELERY_BEAT_TZ_AWARE", True)
    zone: tzinfo = cron.timezone if aware else current_app.timezone
    return str(zone)


def _interval(row: Any, now: datetime) -> str:
    every, period = row.interval.every, row.interval.period
    span = timedelta(**{period: every})
    if span % MILLISECOND or not span:
        raise DefinitionError("interval", f"{every} {period}", "expected whole milliseconds, at least 1")
    if row.start_time and row.start_time > now:
        return _from_start(row, span)
    return f"@every {format_duration(span)}{_options(row, start=False)}"


def _from_start(row: Any, span: timedelta) -> str:
    """The start time itself is the first run; `@every` would fire one interval after it."""
    count: int | str = ""
    if row.expires:
        if row.expires <= row.start_time:
            raise DefinitionError("expires", _text(row.expires), "it expires before it starts")
        count = -((row.start_time - row.expires) // span)  # rounded up: those before it expires
    count = 1 if row.one_off else count
    return f"iso8601:R{count}/{_text(row.start_time)}/PT{span / SECOND:.3f}S"


def _clocked(row: Any, now: datetime) -> str:
    at = row.clocked.clocked_time
    if at <= now:
        raise DefinitionError("clocked", _text(at), "its time has passed")
    return f"@once {_text(at)}{_options(row, limit=False)}"


def _solar(row: Any, _now: datetime) -> str:
    reason = (
        "solar schedules are not supported; write a custom schedule kind, or keep it in django-celery-beat"
    )
    raise DefinitionError("solar", str(row.solar), reason)


def _options(row: Any, *, start: bool = True, limit: bool = True) -> str:
    """Celery stops before the instant of `expires`; our `until` is inclusive, so subtract a microsecond."""
    options: dict[str, object] = {}
    if start and row.start_time:
        options["from"] = _text(row.start_time)
    if limit and row.one_off:
        options["max"] = 1
    if row.expires:
        options["until"] = _text(row.expires - MICROSECOND)
    return f" {{{', '.join(f'{key}:{value}' for key, value in options.items())}}}" if options else ""


def _text(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def _json(row: Any, field: str, kind: type) -> Any:
    text = getattr(row, field) or dumps(kind())
    try:
        value = loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        expected = "object" if kind is dict else "list"
        raise DefinitionError(field, text, f"expected a JSON {expected}")
    return value
