"""Compare parsing, `next_after` and enumeration with croniter, cronsim, APScheduler and Celery.

Ten typical expressions, measured in one run and printed as ratios (above 1: Punctual is faster).

    python benchmarks/schedules.py [--quick]

Every figure is the best of several repetitions, to reduce the influence of other load. Peers that are not
installed are skipped. `parse` is measured twice: with a new text, and with a cached text, as in a scheduler
that loads its jobs repeatedly.
"""

# ruff: noqa: PLC0415, B023, SLF001 -- peers are optional, closures are called at once, caches are cleared
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from time import perf_counter
from zoneinfo import ZoneInfo

# Without this, the folder of this script would come first on the path.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from punctual.schedules import chronex  # noqa: E402
from punctual.schedules.chronex.compiler import _parse  # noqa: E402
from punctual.schedules.kron import DecisionRequest, decide  # noqa: E402
from punctual.schedules.wall_clock.zones import UTC_ZONE  # noqa: E402

EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "30 * * * *",
    "0 9 * * 1-5",
    "30 4 1,15 * *",
    "0 */6 * * *",
    "15 2 * * 0",
    "0 0 1 * *",
    "0 0 1 1 *",
    "0 0 29 2 *",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
START = datetime(2026, 1, 15, 10, 7, 13, tzinfo=UTC)
QUICK = "--quick" in sys.argv

Stepper = Callable[[int], None]


def ours(text: str, zone: str) -> Stepper:
    expression = chronex.parse(text, timezone=zone)

    def run(steps: int) -> None:
        instant = START
        for _ in range(steps):
            instant = expression.next_after(instant) or START

    return run


def cronsim(text: str, zone: str) -> Stepper:
    from cronsim import CronSim

    def run(steps: int) -> None:
        for _ in islice(CronSim(text, START.astimezone(ZoneInfo(zone))), steps):
            pass

    return run


def croniter(text: str, zone: str) -> Stepper:
    from croniter import croniter as peer

    def run(steps: int) -> None:
        iterator = peer(text, START.astimezone(ZoneInfo(zone)))
        for _ in range(steps):
            iterator.get_next(datetime)

    return run


def apscheduler(text: str, zone: str) -> Stepper:
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(text, timezone=ZoneInfo(zone))

    def run(steps: int) -> None:
        instant = START.astimezone(ZoneInfo(zone))
        for _ in range(steps):
            instant = trigger.get_next_fire_time(instant, instant) or instant

    return run


def celery(text: str, zone: str) -> Stepper:
    from celery import Celery
    from celery.schedules import crontab

    app = Celery(set_as_current=False)
    app.conf.timezone = zone
    minute, hour, day, month, weekday = text.split()
    now = START.astimezone(ZoneInfo(zone))
    schedule = crontab(minute, hour, weekday, day, month, nowfun=lambda: now, app=app)

    def run(steps: int) -> None:
        nonlocal now
        for _ in range(steps):
            now += schedule.remaining_estimate(now)

    return run


PEERS = {
    name: maker
    for name, maker in (
        ("cronsim", cronsim),
        ("croniter", croniter),
        ("apscheduler", apscheduler),
        ("celery", celery),
    )
    if find_spec(name)
}


def seconds(call: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        began = perf_counter()
        call()
        best = min(best, perf_counter() - began)
    return best


def per_step(stepper: Stepper, steps: int, repeat: int = 3) -> float:
    stepper(2)  # fills caches
    return seconds(lambda: stepper(steps), repeat) / steps * 1e6


def line(title: str, own: float, others: dict[str, float]) -> None:
    fastest = min(others.values(), default=float("nan"))
    cells = "".join(f"{value:10.1f}" for value in others.values())
    print(f"  {title:<22}{own:8.2f}{cells}{fastest / own:9.1f}x")


def heading(title: str, names: list[str]) -> None:
    columns = "".join(f"{name[:9]:>10}" for name in names)
    print(f"\n{title}\n  {'microseconds':<22}{'ours':>8}{columns}  fastest/ours")


def compare_next() -> None:
    for zone in ZONES:
        heading(f"next_after, {zone}", list(PEERS))
        for text in EXPRESSIONS:
            own = per_step(ours(text, zone), 200 if QUICK else 2000, repeat=5)
            others = {name: per_step(maker(text, zone), 10 if QUICK else 60) for name, maker in PEERS.items()}
            line(text, own, others)


def parsers() -> dict[str, Callable[[str], object]]:
    peers: dict[str, Callable[[str], object]] = {}
    if "cronsim" in PEERS:
        from cronsim import CronSim

        peers["cronsim"] = lambda text: CronSim(text, START)
    if "croniter" in PEERS:
        from croniter import croniter as peer

        peers["croniter"] = lambda text: peer(text, START)
    if "apscheduler" in PEERS:
        from apscheduler.triggers.cron import CronTrigger

        peers["apscheduler"] = lambda text: CronTrigger.from_crontab(text, timezone=UTC)
    if "celery" in PEERS:
        from celery.schedules import crontab

        peers["celery"] = lambda text: crontab(*(text.split()[field] for field in (0, 1, 4, 2, 3)))
    return peers


def compare_parse() -> None:
    peers = parsers()
    heading("parse, a text not seen before", list(peers))
    times = 100 if QUICK else 1000
    for text in EXPRESSIONS:
        # A new trigger id each time, so that the cache is not hit.
        fresh = count()
        own = seconds(
            lambda: [_parse.__wrapped__(text, None, UTC_ZONE, str(next(fresh))) for _ in range(times)], 5
        )
        others = {
            name: seconds(lambda peer=peer: [peer(text) for _ in range(times // 10)], 5) / (times // 10) * 1e6
            for name, peer in peers.items()
        }
        line(text, own / times * 1e6, others)
    own = seconds(lambda: [chronex.parse("*/5 * * * *") for _ in range(times)], 5) / times * 1e6
    print(f"  parsed before: {own:.2f}")
    print(f"  {len(DISTINCT)} distinct texts, all caches empty: {distinct(_parse_empty):.2f}", end="")
    print("".join(f", {name} {distinct(peer):.1f}" for name, peer in peers.items()))


DISTINCT = [
    f"{minute} {hour} {day} * {weekday}"
    for minute in ("*/5", "0,30", "17", "*", "5-25/4")
    for hour in ("*", "9-17", "3", "0,12")
    for day in ("*", "1", "10-20")
    for weekday in ("*", "1-5", "0,6")
]


def _parse_empty(text: str) -> object:
    return _parse.__wrapped__(text, None, UTC_ZONE, "")


def distinct(parse: Callable[[str], object]) -> float:
    """Microseconds per text when many different texts are parsed once, as at the start of a scheduler."""
    from punctual.schedules.chronex import day_fields, numeric_fields
    from punctual.schedules.wall_clock import months, timetable

    caches = (numeric_fields.parse_field, day_fields.parse_month_days, day_fields.parse_week_days,
              months.day_masks, timetable.timetable, timetable._successors)  # fmt: skip
    best = float("inf")
    for _ in range(3):
        for cache in caches:
            cache.cache_clear()
        best = min(best, seconds(lambda: [parse(text) for text in DISTINCT], 1))
    return best / len(DISTINCT) * 1e6


def a_year_of(text: str, zone: str) -> Iterator[datetime]:
    return chronex.parse(text, timezone=zone).between(START, START + timedelta(days=365))


def compare_year() -> None:
    print("\na year of `* * * * *`, seconds (peers extrapolated from a part)")
    for zone in ZONES:
        own = seconds(lambda: sum(1 for _ in a_year_of("* * * * *", zone)), 3)
        steps = 200 if QUICK else 3000
        others = {
            name: per_step(maker("* * * * *", zone), steps, 2) * 525_600 / 1e6
            for name, maker in PEERS.items()
        }
        cells = "".join(f"  {name} {value:.1f}" for name, value in others.items())
        fastest = min(others.values(), default=float("nan"))
        print(f"  {zone:<18} ours {own:.3f}{cells}   fastest/ours {fastest / own:.0f}x")


def decisions() -> None:
    print("\ndecide, microseconds by window")
    for hours in (1, 24 * 365):
        request = DecisionRequest(
            "prod/db-backup", START, window_duration=timedelta(hours=hours), salt="backup"
        )
        spent = seconds(lambda: [decide(request) for _ in range(200)], 5) / 200 * 1e6
        print(f"  {hours:>6} h {spent:6.1f}")


if __name__ == "__main__":
    print(f"peers: {', '.join(PEERS) or 'none installed'}")
    compare_next()
    compare_parse()
    compare_year()
    decisions()
