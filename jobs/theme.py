"""The admin theme with types, and the list that every package's admin builds on.

A ledger grows to millions of rows, so a list never counts and never skips: it reads one row more than
it shows, from the row it left off at.
"""

# ruff: noqa: ARG002 - the signatures are Django's

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from django.contrib.admin.options import ShowFacets
from django.contrib.admin.utils import lookup_field
from django.core.paginator import Page, Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from unfold.contrib.filters.admin import (  # type: ignore[import-untyped]
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    DropdownFilter,
)

from jobs.display import NOTHING, Section
from jobs.keyset import AFTER, BEFORE, page
from jobs.lines import telling

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList

    AnyPage: TypeAlias = Page[Any]
    AnyPaginator: TypeAlias = Paginator[Any]
else:
    # The theme ships no types; to a type checker these are the Django classes they extend.
    from unfold.admin import ModelAdmin as Themed
    from unfold.views import ChangeList

    class ModelAdmin(Themed):
        def __class_getitem__(cls, _model):
            return cls

    AnyPage, AnyPaginator = Page, Paginator


__all__ = [
    "AutocompleteSelectFilter",
    "ChoicesDropdownFilter",
    "DropdownFilter",
    "Listing",
    "ModelAdmin",
    "PlainAdmin",
    "Uncounted",
]

Row = TypeVar("Row", bound=Model)
UNKNOWN = 10_000_000_000  # "more than anybody has": the admin only compares it with a page's size


class Glimpse(AnyPage):
    def has_next(self) -> bool:
        return bool(getattr(self.paginator, "more", False))


class Uncounted(AnyPaginator):
    """What the admin and its autocomplete ask for pages: whether there is a next one, never how many."""

    template_name = "jobs/pagination.html"
    more = False

    @cached_property
    def count(self) -> int:
        return UNKNOWN

    def page(self, number: int | str) -> Glimpse:
        valid = self.validate_number(number)
        start = (valid - 1) * self.per_page
        rows = list(self.object_list[start : start + self.per_page + 1])
        self.more = len(rows) > self.per_page
        return Glimpse(rows[: self.per_page], valid, self)


class Listing(ChangeList):
    """The rows of one page, without the heavy columns that only a row's own page shows."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        for name in (AFTER, BEFORE):  # no filters, and no part of any link to another filter
            self.params.pop(name, None)
            self.filter_params.pop(name, None)
        rows = super().get_queryset(request, *args, **kwargs)
        without = getattr(self.model_admin, "list_without", Q(pk__in=[]))
        return rows.exclude(without).defer(*getattr(self.model_admin, "list_defer", ()))

    def get_results(self, request: HttpRequest) -> None:
        """Without the parent's: it counts, and skips by OFFSET."""
        found = page(self.queryset, request.GET.dict(), self.list_per_page)
        self.result_list, self.paginator = found.rows, Uncounted(found.rows, self.list_per_page)
        self.earlier = self.get_query_string({BEFORE: found.earlier}) if found.earlier else ""
        self.later = self.get_query_string({AFTER: found.later}) if found.later else ""
        # Nobody counted: say what is on the page, so that no template shows an invented total.
        self.result_count = self.full_result_count = len(found.rows)
        self.show_full_result_count = self.can_show_all = False
        self.multi_page = self.show_admin_actions = True


class PlainAdmin(ModelAdmin[Row]):
    """A list that never counts, and a page that shows the row's children below its fields."""

    list_defer: ClassVar[Sequence[str]] = ()
    list_without: ClassVar[Q] = Q(pk__in=[])  # what no list shows
    list_per_page = 50
    list_fullwidth = True
    list_filter_submit = True
    list_disable_select_all = True
    list_live: ClassVar[bool] = False  # then the list refreshes itself
    empty_value_display = NOTHING
    change_list_template = "jobs/change_list.html"
    change_form_template = "jobs/change_form.html"
    empty_words: ClassVar[str] = ""  # what somebody reads who finds the list empty
    paginator = Uncounted
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # a facet is a COUNT per choice
    change_form_outer_after_template = "jobs/sections.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return Listing

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Row | None = None) -> Any:
        """Without what has nothing to show: a page of dashes tells less than a short one."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            return fieldsets
        shown = set(self.get_readonly_fields(request, obj))

        def tells(name: str) -> bool:
            return name not in shown or lookup_field(name, obj, self)[2] not in (NOTHING, None, "")

        lines = [(name, {**kept, "fields": telling(kept["fields"], tells)}) for name, kept in fieldsets]
        return [(name, kept) for name, kept in lines if kept["fields"]]

    def title_of(self, row: Row) -> str:
        """What its page is called."""
        return str(row)

    def changes_by_itself(self, row: Row) -> bool:
        """Then its page is kept fresh."""
        return False

    def sections(self, row: Row) -> list[Section]:
        """The tables below the fields."""
        return []

    def sections_asked(self, request: HttpRequest, row: Row) -> list[Section]:
        """For a page on which something can be chosen."""
        return self.sections(row)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,  # noqa: FBT001, FBT002 - Django's signature
        change: bool = False,  # noqa: FBT001, FBT002
        form_url: str = "",
        obj: Row | None = None,
    ) -> HttpResponse:
        context["sections"] = [] if obj is None else self.sections_asked(request, obj)
        if obj is not None:
            named: Any = obj
            named.page_title = context["subtitle"] = self.title_of(obj)
            context["live_url"] = request.get_full_path() if self.changes_by_itself(obj) else ""
        return super().render_change_form(request, context, add, change, form_url, obj)
