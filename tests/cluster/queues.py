"""Inspect the queues of the cluster's broker without consuming messages."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from redis import Redis

from punctual.execution.broker.messages import RUN
from tests.cluster.processes import Cluster


def length(cluster: Cluster, queue: str) -> int:
    with connect(cluster) as client:
        return int(client.llen(queue))


def waiting_runs(cluster: Cluster, queue: str) -> Counter[UUID]:
    """How many messages in the queue carry each run."""
    with connect(cluster) as client:
        return Counter(run for text in client.lrange(queue, 0, -1) for run in _runs(text))


def empty(cluster: Cluster, queue: str) -> None:
    """Delete all messages, as if they had been consumed and acknowledged."""
    with connect(cluster) as client:
        client.delete(queue)


def connect(cluster: Cluster) -> Redis:
    return Redis(unix_socket_path=str(cluster.folder / "valkey.sock"))


def _runs(text: bytes) -> Iterator[UUID]:
    message = json.loads(text)
    if message["headers"]["task"] == RUN:
        args, _kwargs, _embed = json.loads(base64.b64decode(message["body"]))
        yield from (UUID(id_) for id_ in args[0])
