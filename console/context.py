"""A request → what every page of the admin shows besides its own content."""

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.overview import overview
from console.pulse import Counter, counters
from jobs.clock import database_now

SEES = "occurrences.view_occurrence"


def everywhere(request: HttpRequest) -> dict[str, object]:
    """Asked for by the template, so that a page without the counters does not count; asked once."""
    return {"pulse": SimpleLazyObject(_pulse)} if request.user.has_perm(SEES) else {}


def _pulse() -> list[Counter]:
    return counters(database_now())


def dashboard(request: HttpRequest, context: dict[str, object]) -> dict[str, object]:
    """The first page: the overview, for whoever may see the ledger."""
    if request.user.has_perm(SEES):
        context |= {"overview": overview(database_now()), "title": "Overview"}
    return context
