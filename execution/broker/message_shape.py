"""Check that a message has the shape of those we send, before Celery and a pool process work on it. Pure.

Celery trusts the headers and the body of a message. One without an id, with arguments of another kind or with
a time limit that is no number would end the worker, or take one of its slots for ever. Messages of other
tasks are not looked at.
"""

from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Any
from uuid import UUID

from punctual.execution.broker.bundling import MAX_RUNS
from punctual.execution.broker.messages import RUN, SETTLE

NAMESPACE = "punctual."
LENGTH = 3  # of a body: arguments, keyword arguments, options


class Problem(StrEnum):
    """Why a message was rejected. The value is stored, and is a label of a metric."""

    UNREADABLE = "unreadable"  # its body or its envelope cannot be decoded
    MALFORMED = "malformed"  # something in it has another type or shape than in our messages
    UNKNOWN_TASK = "unknown_task"  # it names a task in our namespace that does not exist


class MalformedError(Exception):
    """Says what is wrong with a message."""


def find_problem(message: Any, known: Container[str]) -> tuple[Problem, str] | None:
    """The problem and its description; None if the message is fine, or not ours.

    `known` are the names of the tasks that the worker knows.
    """
    try:
        return _find_problem(message, known)
    except MalformedError as error:
        return Problem.MALFORMED, str(error)
    except Exception as error:  # noqa: BLE001 - decoding raises errors of many types
        return Problem.UNREADABLE, f"{type(error).__name__}: {error}"


def _find_problem(message: Any, known: Container[str]) -> tuple[Problem, str] | None:
    headers = message.headers
    _require(isinstance(headers, Mapping), "headers")
    name = headers.get("task")
    _require(name is None or isinstance(name, str), "task")
    if name is not None and not name.startswith(NAMESPACE):
        return None
    payload = message.payload
    if isinstance(payload, Mapping):  # protocol 1
        headers = {**payload, **headers}
        name = headers.get("task")
    if not (isinstance(name, str) and name.startswith(NAMESPACE)):
        return None
    if name not in (RUN, SETTLE):
        return None if name in known else (Problem.UNKNOWN_TASK, name)
    _check_headers(headers)
    _require(isinstance(message.delivery_info, Mapping), "delivery_info")
    _check_body(name, payload)
    return None


def _check_headers(headers: Mapping[str, Any]) -> None:
    _require(isinstance(headers.get("id"), str) and headers["id"], "id")
    limits = headers.get("timelimit")
    if limits is not None:
        _require(isinstance(limits, list | tuple) and len(limits) == len(("hard", "soft")), "timelimit")
        _require(all(limit is None or isinstance(limit, int | float) for limit in limits), "timelimit")
    _require(isinstance(headers.get("group"), str | None), "group")
    _require(isinstance(headers.get("group_index"), int | None), "group_index")
    _require(isinstance(headers.get("stamped_headers"), list | None), "stamped_headers")
    _require(isinstance(headers.get("stamps"), Mapping | None), "stamps")


def _check_body(name: str, payload: Any) -> None:
    args: Any
    if isinstance(payload, Mapping):
        args, kwargs, options = payload.get("args"), payload.get("kwargs"), payload
    else:
        _require(isinstance(payload, list | tuple) and len(payload) == LENGTH, "body")
        args, kwargs, options = payload
    _require(isinstance(args, list | tuple) and len(args) == 1, "args")
    _require(isinstance(kwargs, Mapping) and not kwargs, "kwargs")
    _check_ids(args[0] if name == RUN else [args[0]])
    _require(isinstance(options, Mapping | None), "options")
    options = options or {}
    for key in ("callbacks", "errbacks", "chain"):
        _require(not options.get(key), key)
    chord = options.get("chord")
    _require(chord is None or (isinstance(chord, Mapping) and chord.get("task") == SETTLE), "chord")


def _check_ids(ids: Any) -> None:
    _require(isinstance(ids, list) and 0 < len(ids) <= MAX_RUNS, "args")
    for id_ in ids:
        try:
            UUID(id_)
        except (ValueError, AttributeError, TypeError):
            raise MalformedError("args") from None


def _require(condition: object, field: str) -> None:
    if not condition:
        raise MalformedError(field)
