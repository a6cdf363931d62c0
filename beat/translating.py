"""A PeriodicTask of django-celery-beat → the definition of a job that fires at the same instants (OCC-10).

What cannot be said exactly is refused with the reason: a job that fires almost as before is worse than
none. Celery's fields are expanded by Celery's own parser; the author's text stays where Chronex reads
the same from it. An interval counts from the import, as it would from a beat's restart.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from celery import current_app
from celery.schedules import ParseException
from celery.schedules import crontab as CeleryCrontab  # noqa: N812 - a class in lower case
from django.conf import settings
from kombu.utils.json import dumps, loads

from jobs.definition import Definition
from jobs.durations import format_duration
from jobs.errors import DefinitionError
from schedules.chronex.fields import HOUR, MINUTE, MONTH, MONTH_DAY, WEEK_DAY, Domain, parse_field

MILLISECOND = timedelta(milliseconds=1)
INSTANT = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
KINDS = ("crontab", "interval", "clocked", "solar")
ROUTING = ("queue", "exchange", "routing_key", "priority")
FIELDS = {"minute": MINUTE, "hour": HOUR, "day_of_month": MONTH_DAY, "month_of_year": MONTH}


def definition_of(row: Any, *, function: str, now: datetime) -> Definition:
    """`function` is the registered function that sends the message; DefinitionError says why not."""
    task = {"name": "send", "function": function}
    data = {"name": row.name, "schedule": schedule_of(row, now), "enabled": row.enabled, "tasks": [task]}
    return Definition.load(data | {"metadata": message_of(row)})


def message_of(row: Any) -> dict[str, str]:
    """What `beat.importing.send` needs, as texts; arguments stay the JSON they were."""
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
        raise DefinitionError("one_off", True, "it has run; nothing is left to do")  # noqa: FBT003 - a value
    if row.expires and row.expires <= now:
        raise DefinitionError("expires", _text(row.expires), "it has expired; nothing is left to do")
    writers = {"crontab": _crontab, "interval": _interval, "clocked": _clocked, "solar": _solar}
    return writers[kinds[0]](row, now)


def _crontab(row: Any, _now: datetime) -> str:
    cron = row.crontab
    texts = {name: str(getattr(cron, name)).replace(" ", "") for name in (*FIELDS, "day_of_week")}
    try:
        read: Any = CeleryCrontab(**texts)
    except (ValueError, ParseException) as error:
        raise DefinitionError("crontab", str(cron), f"Celery cannot read it: {error}") from None
    written = {name: _field(domain, texts[name], getattr(read, name)) for name, domain in FIELDS.items()}
    week_day = _field(WEEK_DAY, texts["day_of_week"], read.day_of_week)
    if written["day_of_month"] != "*" and week_day != "*":
        reason = "Celery fires when day of month AND day of week match, Chronex when either does; make one *"
        raise DefinitionError("crontab", " ".join(texts.values()), reason)
    return f"TZ={_zone(cron)} {' '.join((*written.values(), week_day))}{_options(row)}"


def _field(domain: Domain, text: str, values: set[int]) -> str:
    """A star for everything, the author's text where it means the same here, else the numbers."""
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
        raise DefinitionError("clocked", _text(at), "its time has passed; nothing is left to do")
    return f"@once {_text(at)}{_options(row, most=False)}"


def _solar(row: Any, _now: datetime) -> str:
    reason = "no schedule here follows the sun; write a custom kind, or keep it in django-celery-beat"
    raise DefinitionError("solar", str(row.solar), reason)


def _options(row: Any, *, start: bool = True, most: bool = True) -> str:
    """Celery stops at the instant of `expires`, `until` includes its own: hence just before it."""
    found: dict[str, object] = {}
    if start and row.start_time:
        found["from"] = _text(row.start_time)
    if most and row.one_off:
        found["max"] = 1
    if row.expires:
        found["until"] = _text(row.expires - INSTANT)
    return f" {{{', '.join(f'{key}:{value}' for key, value in found.items())}}}" if found else ""


def _text(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def _json(row: Any, field: str, kind: type) -> Any:
    text = getattr(row, field) or dumps(kind())
    try:
        value = loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        wanted = "object" if kind is dict else "list"
        raise DefinitionError(field, text, f"expected a JSON {wanted}")
    return value
