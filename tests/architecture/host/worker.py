"""`python -m tests.architecture.host.worker QUEUE`: start a worker, stop it once it is ready, and print what
has changed in the libraries that a host shares with us."""

import importlib
import json
import logging
import os
import pkgutil
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import psycopg
from celery import Celery, signals
from celery.fixups import django as fixup
from celery.worker import consumer, control, state
from django.apps import apps
from django.db.backends.postgresql import psycopg_any
from django.db.backends.signals import connection_created
from kombu.transport import redis

LOADED_FIRST = (fixup, consumer, redis)  # so that the first snapshot has them
LIBRARIES = ("kombu", "celery", "psycopg", "redis")
HOOKS = (
    *((sys, "excepthook"), (sys, "unraisablehook"), (sys, "displayhook"), (threading, "excepthook")),
    *((logging, "_loggerClass"), (logging, "lastResort")),
)


def attributes() -> Iterator[tuple[str, Any]]:
    """Every function and class of the libraries, and every attribute of their classes, by name."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in LIBRARIES and isinstance(module, types.ModuleType):
            for key, value in list(vars(module).items()):
                if callable(value):
                    yield f"{name}.{key}", value
                if isinstance(value, type) and value.__module__ == name:
                    yield from ((f"{name}.{key}.{inner}", held) for inner, held in list(vars(value).items()))


def registrations() -> Iterator[tuple[str, Any]]:
    """What is kept in a registry instead of an attribute."""
    yield from ((f"answer {name}", answer) for name, answer in control.Panel.data.items())
    yield from ((f"{module.__name__}.{name}", getattr(module, name)) for module, name in HOOKS)
    oid = psycopg.adapters.types["timestamptz"].oid
    for name, adapters in (
        ("psycopg", psycopg.adapters),
        ("Django", psycopg_any.get_adapters_template(use_tz=True, timezone=None)),
    ):
        yield f"loader of {name}", adapters.get_loader(oid, psycopg.pq.Format.TEXT)
    yield "receivers of connection_created", len(connection_created.receivers)
    yield "root logger", [logging.root.level, *map(type, logging.root.handlers)]


def snapshot() -> dict[str, Any]:
    return {**dict(attributes()), **dict(registrations())}


def import_everything() -> None:
    if apps.is_installed("punctual"):
        package = importlib.import_module("punctual")
        for found in pkgutil.walk_packages(package.__path__, "punctual."):
            importlib.import_module(found.name)


def main(queue: str) -> None:
    app: Any = Celery("host", broker=os.environ["BROKER_URL"])
    app.conf.update(task_default_queue=queue, worker_hijack_root_logger=False, worker_redirect_stdouts=False)
    before = snapshot()
    facts: dict[str, Any] = {}
    running: Any = state

    @signals.worker_ready.connect
    def stop(sender: Any, **_: Any) -> None:
        channel = sender.task_consumer.channel
        facts["delivery"] = type(channel.qos).__name__
        facts["prefetch"] = channel.qos.prefetch_count
        running.should_stop = 0

    worker: Any = app.Worker(pool="solo", concurrency=1, quiet=True, prefetch_multiplier=3)
    import_everything()
    worker.start()
    after = snapshot()
    facts["fixups"] = [f"{type(one).__module__}.{type(one).__qualname__}" for one in app._fixups]
    facts["changed"] = sorted(key for key, value in before.items() if after.get(key) != value)
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1])
