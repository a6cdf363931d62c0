"""The no-op as a dramatiq actor, broker and results in the same Redis.

Results have their own Redis database: their keys are hashes that cannot be told from other keys.
"""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

URL = os.environ["BROKER_URL"].replace("redis+socket", "unix")
broker = RedisBroker(url=URL)
results = RedisBackend(url=f"{URL}?db=1")
broker.add_middleware(Results(backend=results))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def noop() -> None: ...
