"""The programs that `up` runs, and the environment they share."""

import http.client
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler_project.environment import words
from scheduler_project.up.child import Program
from scheduler_project.up.ports import address, is_loopback

FLOWER_HOST = "127.0.0.1"  # Flower's password is sent unencrypted, so Flower listens on this machine only
DEMO_APP = "examples.demo"
CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "scheduler_project")


@dataclass(frozen=True)
class Options:
    host: str
    port: int
    beats: int
    workers: int
    concurrency: int
    flower_port: int | None  # None: no Flower
    demo: bool

    @property
    def site(self) -> str:
        return f"http://{address(self.host, self.port)}"

    @property
    def flower_site(self) -> str | None:
        return f"http://{FLOWER_HOST}:{self.flower_port}" if self.flower_port else None


def environment_for(base: Mapping[str, str], options: Options, *, project: Path, var: Path) -> dict[str, str]:
    """Return the environment of every child: data folder, unbuffered output, the demo's jobs."""
    path = os.pathsep.join(filter(None, [str(project), base.get("PYTHONPATH")]))
    env = {**base, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PUNCTUAL_VAR": str(var)}
    # whitenoise warns on the embedded default, which serves static files without collecting them.
    quiet = "ignore:No directory at"
    env["PYTHONWARNINGS"] = ",".join(filter(None, [base.get("PYTHONWARNINGS"), quiet]))
    env.setdefault("WORKER_SLOTS", str(options.workers * options.concurrency))
    if is_loopback(options.host):
        env.setdefault("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
    if options.demo:
        env["PUNCTUAL_APPS"] = ",".join(dict.fromkeys([*words(base, "PUNCTUAL_APPS"), DEMO_APP]))
        env.setdefault("HTTPS", "off")  # the demo listens on the loopback interface only
    return env


def shutdown_grace(seconds: int) -> str:
    """Return the PUNCTUAL_SHUTDOWN_GRACE that lets a worker hand back its runs before `up` kills it."""
    return f"{max(seconds * 5 // 6, 1)}s"


def programs(options: Options) -> list[Program]:
    """Return the programs in the order in which they start."""
    return [
        *(_beat(number) for number in range(1, options.beats + 1)),
        *(_worker(number, options) for number in range(1, options.workers + 1)),
        _web(options),
        *([_flower(options.flower_port)] if options.flower_port else []),
    ]


def _beat(number: int) -> Program:
    return Program(f"beat-{number}", (*CELERY, "beat"))


def _worker(number: int, options: Options) -> Program:
    # The port makes the name unique when two `up` on this host share a broker.
    name = ("--hostname", f"worker-{number}-{options.port}@%h")
    pool = ("--pool", "prefork", "--concurrency", str(options.concurrency))
    return Program(f"worker-{number}", (*CELERY, "worker", *name, *pool))


def _flower(port: int) -> Program:
    # Flower warns about workers that are still starting; log only its errors.
    argv = (*CELERY, "flower", f"--address={FLOWER_HOST}", f"--port={port}")
    return Program(
        "flower",
        argv,
        env={"LOG_LEVEL": "ERROR"},
        ready=lambda: _answers(FLOWER_HOST, port, "/healthcheck"),
    )


def _web(options: Options) -> Program:
    bind = address(options.host, options.port)
    flags = ("--worker-class", "gthread", "--workers", "1", "--threads", "8", "--no-control-socket")
    log = ("--logger-class", "scheduler_project.gunicorn_log.Logger")
    argv = (sys.executable, "-m", "gunicorn", "--bind", bind, *flags, *log, "scheduler_project.wsgi")
    return Program("web", argv, ready=lambda: _answers(options.host, options.port, "/healthz"))


def _answers(host: str, port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
