"""`manage.py up`: run web, beats, workers and Flower on this machine, in one terminal.

The order is: check everything first (`preflight`, `ports`), prepare the database and a login
(`preparation`, `logins`), then start the programs (`programs`) under one supervisor. Without BROKER_URL a
bundled Redis-compatible server is one of the programs (`bundled_broker`).

Invariants: a refusal comes before anything is written. One supervisor owns a data folder; a second one is
refused. No child outlives the supervisor: a signal stops all children in order, the broker last, and the
kernel ends them when the supervisor is killed (`leash`). A child that exits is restarted after a pause; when
it exits too often, everything stops with an error (`program_supervisor`).

| question | module |
|---|---|
| which programs run, with which options and environment? | `programs` |
| how are they started, restarted, stopped? | `program_supervisor`, `child` |
| how do their lines become one log? | `merged_log` |
| which errors can end `up`? | `errors` |
"""
