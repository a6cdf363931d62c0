"""Which database is it? `punctual.jobs.database` asks, for this room too."""

from punctual.jobs.database import is_postgresql

__all__ = ["is_postgresql"]
