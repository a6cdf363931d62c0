"""The errors that mean: the broker, or the result store, did not accept a message.

Nothing is lost when one of them is raised. The rows are committed, and the sweeper resends what was not
confirmed.
"""

from amqp.exceptions import AMQPError, MessageNacked
from kombu.exceptions import KombuError

BROKER_ERRORS = (
    KombuError,
    ConnectionError,
    TimeoutError,
    OSError,
    RuntimeError,  # Celery raises it when the result store, which counts a chord's members, does not answer
    # RabbitMQ closes the connection in the middle of a batch, or refuses a message.
    AMQPError,
    MessageNacked,
)
