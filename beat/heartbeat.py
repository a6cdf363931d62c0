"""A beat's name and now → its row in the table of beats; rows of beats long gone are removed."""

from datetime import datetime, timedelta

from beat.models import Beat

FORGOTTEN_AFTER = timedelta(hours=1)


def sign_in(name: str, now: datetime) -> None:
    Beat.objects.filter(ticked_at__lt=now - FORGOTTEN_AFTER).delete()
    Beat.objects.update_or_create(
        name=name, defaults={"started_at": now, "ticked_at": now, "lag": timedelta()}
    )


def tick_done(name: str, *, started: datetime, now: datetime) -> None:
    changed = Beat.objects.filter(name=name).update(ticked_at=now, lag=now - started)
    if not changed:  # removed as forgotten while this process was frozen
        sign_in(name, now)


def sign_out(name: str) -> None:
    Beat.objects.filter(name=name).delete()
