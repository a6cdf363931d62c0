"""`manage.py up`: run everything that Punctual needs on this machine, in one terminal."""

import os
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from scheduler_project.environment import flag, log_format
from scheduler_project.up import bundled_broker
from scheduler_project.up.errors import UpError
from scheduler_project.up.logins import flower_login
from scheduler_project.up.merged_log import MergedLog
from scheduler_project.up.preflight import check
from scheduler_project.up.preparation import prepare
from scheduler_project.up.program_supervisor import Supervisor
from scheduler_project.up.programs import Options, environment_for, programs, shutdown_grace

HIGHEST_PORT = 65_535


class Command(BaseCommand):
    help = "Start web, beats, workers and Flower, and a broker of its own unless BROKER_URL is set."

    def add_arguments(self, parser: ArgumentParser) -> None:
        port, count, some = _whole(1, HIGHEST_PORT), _whole(0), _whole(1)
        add = parser.add_argument
        add("--host", default="127.0.0.1", help="address of the web server (%(default)s)")
        add("--port", type=port, default=8000, help="port of the web server (%(default)s)")
        add("--beats", type=count, default=2, help="how many beats (%(default)s)")
        add("--workers", type=count, default=1, help="how many workers (%(default)s)")
        add("--concurrency", type=some, default=4, help="processes per worker (%(default)s)")
        add("--flower-port", type=port, default=5555, help="port of Flower (%(default)s)")
        add("--no-flower", action="store_true", help="leave Flower out")
        add("--no-migrate", action="store_true", help="leave the tables of DATABASE_URL as they are")
        add("--grace", type=count, default=30, help="seconds children get to stop (%(default)s)")
        add("--patience", type=some, default=90, help="seconds it may take to start (%(default)s)")
        add("--demo", action="store_true", help="add example jobs and a login, to try it out")

    def handle(self, *args: object, **given: Any) -> None:
        options = Options(
            **{name: given[name] for name in ("host", "port", "beats", "workers", "concurrency")},
            flower_port=None if given["no_flower"] else given["flower_port"],
            demo=given["demo"],
        )
        try:
            self.up(options, given)
        except UpError as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:  # before the supervisor handles signals
            raise CommandError("interrupted", returncode=130) from None

    def up(self, options: Options, given: dict[str, Any]) -> None:
        started, own_broker = time.monotonic(), not os.environ.get("BROKER_URL")
        check(options, own_broker=own_broker)
        if own_broker:
            bundled_broker.lock_folder(settings.VAR_DIR)
        login = prepare(options, migrate=settings.EMBEDDED or not given["no_migrate"])
        env = environment_for(os.environ, options, project=settings.BASE_DIR, var=settings.VAR_DIR)
        env.setdefault("PUNCTUAL_SHUTDOWN_GRACE", shutdown_grace(given["grace"]))
        env["FLOWER_BASIC_AUTH"], flower_note = flower_login(env, settings.VAR_DIR, demo=options.demo)
        foundation = [bundled_broker.program(settings.VAR_DIR)] if own_broker else []
        everything = [*foundation, *programs(options)]
        names = [program.name for program in everything]
        log = MergedLog(sys.stdout, names, as_json=log_format(env) == "json")

        def announce() -> None:
            log.say(f"ready after {time.monotonic() - started:.1f} s; Ctrl-C stops everything")
            for line in _banner(
                options, login, flower_note, https=flag(env, "HTTPS", default=settings.HTTPS)
            ):
                log.say(line)

        supervisor = Supervisor(everything, env=env, log=log, grace=given["grace"])
        supervisor.run(patience=given["patience"], on_ready=announce)


def _banner(options: Options, login: str, flower_note: str, *, https: bool) -> list[str]:
    lines = [f"  admin    {options.site}/admin/", f"  login    {login}"]
    if options.flower_site:
        lines.append(f"  flower   {options.flower_site}/   ({flower_note})")
    lines.append(f"  metrics  {options.site}/metrics")
    if https:
        lines.append("  https    required; put a TLS proxy in front, or set HTTPS=off for this machine")
    return lines


def _whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    bounds = f"{lowest} to {highest}" if highest else f"{lowest} or more"

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if number < lowest or (highest and number > highest):
            raise ArgumentTypeError(f"{text!r} is not a whole number, {bounds}")
        return number

    return parse
