"""Tasks that raise, return, print or leave behind anything. `EXPECTED` says how each one ends."""

import asyncio
import decimal
import locale
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from celery.exceptions import Ignore, Reject, Retry
from django.db import connection, connections

from punctual import Context, Job, RetryAfter

hostile = Job("hostile", "@once 2999-01-01T00:00:00Z")
# The type of the error that each function leaves in its attempt; empty: the attempt succeeds.
EXPECTED: dict[str, str] = {}
NAMELESS = "Na\0me\ud800less"
MEGABYTES = 4 * 1024 * 1024
Function = TypeVar("Function", bound=Callable[[Context], Any])


def expect(error_type: str) -> Callable[[Function], Function]:
    def declare(function: Function) -> Function:
        EXPECTED[function.__name__] = error_type
        hostile.task(function)
        return function

    return declare


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class StrangeBaseError(BaseException):
    pass


class UnpicklableError(Exception):
    def __reduce__(self) -> NoReturn:
        raise KeyboardInterrupt


class NamedMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__qualname__":
            raise SystemExit(6)
        return super().__getattribute__(name)


class UnnamedError(Exception, metaclass=NamedMeta):
    pass


class ClasslessError(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise SystemExit(4)


class EvilText(str):
    __slots__ = ()

    def __getitem__(self, _: Any) -> NoReturn:
        raise SystemExit(5)

    encode = replace = __getitem__  # type: ignore[assignment]


# -- raise ------------------------------------------------------------------------------------------


@expect("StrangeBaseError")
def raises_base_exception(_: Context) -> None:
    raise StrangeBaseError("on purpose")


@expect("KeyboardInterrupt")
def raises_keyboard_interrupt(_: Context) -> None:
    raise KeyboardInterrupt


@expect("SystemExit")
def exits(_: Context) -> None:
    sys.exit(7)


@expect("GeneratorExit")
def raises_generator_exit(_: Context) -> None:
    raise GeneratorExit


@expect("CancelledError")
def raises_cancelled(_: Context) -> None:
    raise asyncio.CancelledError


@expect("StopIteration")
def raises_stop_iteration(_: Context) -> None:
    raise StopIteration


@expect("ExceptionGroup")
def raises_group(_: Context) -> None:
    raise ExceptionGroup("several", [ValueError("a"), ExceptionGroup("more", [TypeError("b")])])


@expect("BaseExceptionGroup")
def raises_base_group(_: Context) -> None:
    raise BaseExceptionGroup("several", [ValueError("a"), SystemExit(2)])


@expect("ExceptionGroup")
def raises_deep_group(_: Context) -> None:
    error: Exception = ValueError("inside")
    for _number in range(5000):
        error = ExceptionGroup("around", [error])
    raise error


@expect("Na\\x00me\\ud800less")
def raises_nameless(_: Context) -> None:
    raise type("Nameless", (Exception,), {"__qualname__": NAMELESS})("\0 and \ud800")


@expect("<unprintable NamedMeta>")
def raises_unnamed(_: Context) -> None:
    raise UnnamedError("on purpose")


@expect("UnprintableError")
def raises_unprintable(_: Context) -> None:
    raise UnprintableError


@expect("ClasslessError")
def raises_classless(_: Context) -> None:
    raise ClasslessError


@expect("UnpicklableError")
def raises_unpicklable(_: Context) -> None:
    raise UnpicklableError("on purpose")


@expect("raises_local.<locals>.LocalError")
def raises_local(_: Context) -> None:
    class LocalError(Exception):
        pass

    raise LocalError(threading.Lock())


@expect("ValueError")
def raises_evil_text(_: Context) -> None:
    class WrappedError(ValueError):
        def __str__(self) -> str:
            return EvilText("evil")

    WrappedError.__qualname__ = "ValueError"
    raise WrappedError


@expect("ValueError")
def raises_huge_message(_: Context) -> None:
    raise ValueError("x" * MEGABYTES)


@expect("RecursionError")
def recurses(ctx: Context) -> None:
    recurses(ctx)


@expect("MemoryError")
def raises_memory_error(_: Context) -> None:
    raise MemoryError


@expect("Reject")
def raises_reject(_: Context) -> None:
    raise Reject("again", requeue=True)


@expect("Ignore")
def raises_ignore(_: Context) -> None:
    raise Ignore


@expect("Retry")
def raises_celery_retry(_: Context) -> None:
    raise Retry("later")


@expect("RetryAfter")
def raises_broken_delay(_: Context) -> None:
    error = RetryAfter(1)
    error.delay = "soon"  # type: ignore[assignment]
    raise error


# -- return -----------------------------------------------------------------------------------------


@expect("")
def returns_object(_: Context) -> object:
    return object()


@expect("TypeError")
def returns_generator(_: Context) -> Iterator[int]:
    return (number for number in range(3))


@expect("TypeError")
def returns_async_generator(_: Context) -> AsyncIterator[int]:
    async def inner() -> AsyncIterator[int]:
        yield 1

    return inner()


@expect("ValueError")
def returns_coroutine(_: Context) -> Any:
    async def inner() -> None:
        raise ValueError("from the coroutine")

    return inner()


@expect("SystemExit")
async def coroutine_exits(_: Context) -> None:
    sys.exit(7)


@expect("RuntimeError")
async def stops_its_loop(_: Context) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    await asyncio.sleep(600)


@expect("")
def forks_and_returns_twice(_: Context) -> None:
    if os.fork():
        os.wait()


@expect("ValueError")
def forks_and_raises_twice(_: Context) -> None:
    if os.fork():
        os.wait()
    raise ValueError("in both")


@expect("")
async def forks_in_a_coroutine(_: Context) -> None:
    if os.fork():
        os.wait()  # noqa: ASYNC222 - it ends at once


# -- print and leave behind -------------------------------------------------------------------------


@expect("")
def prints_megabytes(_: Context) -> None:
    print("y" * MEGABYTES)  # noqa: T201 - on purpose
    sys.stderr.write("z" * MEGABYTES)


@expect("")
def prints_nonsense(_: Context) -> None:
    print("\0\ud800")  # noqa: T201 - on purpose


@expect("")
def closes_streams(_: Context) -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is not None:
            stream.close()
    for number in range(3):
        os.close(number)


@expect("ValueError")
def closes_streams_and_raises(_: Context) -> None:
    for number in range(3):
        os.close(number)
    sys.stdout = sys.stderr = None
    raise ValueError("after that")


@expect("")
def closes_connections(_: Context) -> None:
    connections.close_all()


@expect("")
def closes_database_socket(_: Context) -> None:
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        os.close(connection.connection.fileno())


@expect("WorkerLost")
def closes_every_file(_: Context) -> None:
    os.closerange(0, 4096)


@expect("")
def starts_daemon_threads(_: Context) -> None:
    for _number in range(5):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


@expect("")
def ignores_signals(_: Context) -> None:
    for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})


@expect("")
def sets_alarm(_: Context) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


@expect("")
def removes_its_directory(_: Context) -> None:
    folder = Path(f"/tmp/punctual-{os.getpid()}")  # noqa: S108 - removed at once
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    folder.rmdir()


@expect("")
def changes_defaults(_: Context) -> None:
    os.umask(0o777)
    locale.setlocale(locale.LC_ALL, "C")
    decimal.getcontext().prec = 1
    decimal.getcontext().traps[decimal.Inexact] = True
    socket.setdefaulttimeout(0.000001)


@expect("ValueError")
def leaves_no_recursion(_: Context) -> None:
    for limit in range(1, 1000):
        with suppress(RecursionError):
            sys.setrecursionlimit(limit)
            break
    raise ValueError("with hardly any frames left")


@expect("")
def sets_broken_loop_policy(_: Context) -> None:
    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> NoReturn:
            raise RuntimeError("no loop")

    asyncio.set_event_loop_policy(Policy())


@expect("")
async def runs_a_coroutine_afterwards(_: Context) -> None:
    await asyncio.sleep(0)
