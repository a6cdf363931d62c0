"""The no-op for django-q2, which calls it by its dotted name."""


def noop() -> None: ...
