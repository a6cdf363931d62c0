"""Start and stop the supervisor with its worker, and install the interrupt handler in each pool process."""

import gc
import os
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any

from celery import signals
from django.db import DatabaseError

from punctual.conf import current_settings
from punctual.execution.broker.brokers import broker_of
from punctual.execution.supervision import interrupt
from punctual.execution.supervision.board import board
from punctual.execution.supervision.prefetch import Prefetch, waiting_messages
from punctual.execution.supervision.presence import WorkerPresence, sign_out
from punctual.execution.supervision.supervisor import Supervisor
from punctual.execution.worker import log_tail
from punctual.execution.worker.connection import close_own_connection, own_connection
from punctual.execution.worker.intake import CheckedIntake, rejections
from punctual.execution.worker.process_state import save_process
from punctual.jobs.clock import database_now
from punctual.jobs.declaration.registry import registry
from punctual.jobs.events import Event as Events
from punctual.jobs.events import emit

PASS_INTERVAL = 0.1
LOCK_TIMEOUT = (
    "500ms"  # another session that holds one row must not keep the leases of all from being renewed
)
LAST_PASS_TIMEOUT = 10.0


class SupervisorThread(Thread):
    """Runs one pass of the supervisor after the other.

    `worker` is the name under which the process signs in; a pool process that supervises only itself has
    none.
    """

    def __init__(self, worker: str = "", consumer: Any = None) -> None:
        super().__init__(name="punctual-supervisor", daemon=True)
        self.consumer = consumer
        self.presence = WorkerPresence(worker) if worker else None
        self.supervisor = Supervisor(board, current_settings(), prefetch=Prefetch(waiting_messages))
        self.done = Event()

    def run(self) -> None:
        while not self.done.wait(PASS_INTERVAL):
            self._pass()
        self._pass()  # reports what ended with the pool
        if self.presence is not None:
            with suppress(DatabaseError), own_connection():  # then its row gets old instead
                sign_out(self.presence.name)
        close_own_connection()

    def end(self) -> None:
        self.done.set()
        self.join(LAST_PASS_TIMEOUT)

    def _pass(self) -> None:
        # Anew each time: the dispatcher is another one after the worker has reconnected to its broker.
        board.sends_events = getattr(getattr(self.consumer, "event_dispatcher", None), "enabled", False)
        try:
            with own_connection(lock_timeout=LOCK_TIMEOUT):
                self.supervisor.run_once(at=monotonic(), clock=database_now)
                if self.presence is not None:
                    self.presence.run_once(at=monotonic(), clock=database_now)
                rejections.write(database_now)
        except BaseException as error:  # noqa: BLE001 - this thread renews leases; it must never die
            # The next pass repeats what failed, and leases outlast a short outage.
            emit(Events.SUPERVISOR_FAILED, error=repr(error))


thread: SupervisorThread | None = None


def connect() -> None:
    log_tail.install()
    signals.worker_init.connect(prepare_worker)
    signals.worker_ready.connect(start_supervisor)
    signals.worker_process_init.connect(prepare_process)
    signals.worker_shutting_down.connect(request_stop)
    signals.worker_shutdown.connect(stop_supervisor)


def prepare_worker(sender: Any, **_: Any) -> None:
    """Before the pool forks, so that its processes know that a supervisor watches them."""
    board.head(supervisor=os.getpid())
    registry.discovery.run_or_exit()
    # What is loaded by now stays: the garbage collector skips it, and forked processes share its memory.
    gc.collect()
    gc.freeze()
    interrupt.install()  # a solo worker runs functions in this thread
    sender.app.steps["consumer"].add(CheckedIntake)
    broker_of(str(sender.app.conf.broker_url)).install(sender.app)


def start_supervisor(sender: Any = None, **_: Any) -> None:
    """After the pool has forked: a forked process does not inherit threads."""
    global thread  # noqa: PLW0603 - one worker is one process, and Celery's signals carry no state of ours
    thread = SupervisorThread(getattr(sender, "hostname", ""), sender)
    thread.start()


def prepare_process(**_: Any) -> None:
    interrupt.install()
    signals.task_prerun.connect(save_process)
    if board.supervisor != os.getppid():
        # Spawned, not forked: the worker does not share this memory, so this process supervises itself.
        start_supervisor()


def request_stop(**_: Any) -> None:
    """Called from a signal handler: it sets two flags, and does nothing that could block."""
    board.head(supervisor=board.supervisor, stopping=True)
    if thread is not None:
        thread.supervisor.stopping = True


def stop_supervisor(**_: Any) -> None:
    if thread is not None:
        thread.end()
