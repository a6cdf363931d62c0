"""The no-op as a procrastinate task, in the same PostgreSQL."""

import os

from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))


@app.task(queue="default", name="noop")
def noop() -> None: ...
