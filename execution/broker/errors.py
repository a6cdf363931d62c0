"""The errors that mean: the broker, or the result store, did not accept a message.

Nothing is lost when one of them is raised. The rows are committed, and the sweeper resends what was not
confirmed. A broker that answers with an error (out of memory, read-only, a key of another type) is in
trouble just as one that does not answer.
"""

from importlib.util import find_spec

from amqp.exceptions import AMQPError, MessageNacked
from kombu.exceptions import KombuError


def _redis_errors() -> tuple[type[Exception], ...]:
    if find_spec("redis") is None:  # RabbitMQ is the broker
        return ()
    from redis.exceptions import RedisError  # noqa: PLC0415 - missing in such an installation

    return (RedisError,)


BROKER_ERRORS: tuple[type[Exception], ...] = (
    KombuError,
    ConnectionError,
    TimeoutError,
    OSError,
    RuntimeError,  # Celery raises it when the result store, which counts a chord's members, does not answer
    # RabbitMQ closes the connection in the middle of a batch, or refuses a message.
    AMQPError,
    MessageNacked,
    *_redis_errors(),
)
