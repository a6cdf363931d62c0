"""Base classes of every list and page of the console, on top of the admin theme.

The ledger grows to millions of rows, so a list never counts and never uses OFFSET: it pages by keyset and
reads one row more than it shows.
"""

# ruff: noqa: ARG002 - the signatures are Django's

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from django.contrib.admin.exceptions import DisallowedModelAdminLookup
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

from punctual.console.kit.display import NOTHING, Section
from punctual.console.kit.keyset import AFTER, BEFORE, page

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
    "ConsoleAdmin",
    "DropdownFilter",
    "KeysetChangeList",
    "ModelAdmin",
    "UncountedPaginator",
]

Row = TypeVar("Row", bound=Model)
Line = str | tuple[str, ...]
UNKNOWN_COUNT = 10_000_000_000  # larger than any table: the admin only compares it with the page size


class UncountedPage(AnyPage):
    """A page that knows only whether another one follows."""

    def has_next(self) -> bool:
        return bool(getattr(self.paginator, "more", False))


class UncountedPaginator(AnyPaginator):
    """A paginator for the admin and its autocomplete that never counts rows."""

    template_name = "punctual_console/kit/pagination.html"
    more = False

    @cached_property
    def count(self) -> int:
        return UNKNOWN_COUNT

    def page(self, number: int | str) -> UncountedPage:
        valid = self.validate_number(number)
        start = (valid - 1) * self.per_page
        rows = list(self.object_list[start : start + self.per_page + 1])
        self.more = len(rows) > self.per_page
        return UncountedPage(rows[: self.per_page], valid, self)


class KeysetChangeList(ChangeList):
    """The rows of one page, by keyset, without the large columns that only the page of a row shows."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Refuse lookups that no filter has taken, and that no page links to.

        Django allows every lookup on a column of the table, even on the keys of a JSON document. With
        `?args__password__startswith=a` a user could guess, letter by letter, what no page shows.
        """
        filters = super().get_filters(request)
        rest = filters[2]
        if undeclared := sorted(set(rest) - set(getattr(self.model_admin, "linked_lookups", ()))):
            raise DisallowedModelAdminLookup(f"Filtering by {', '.join(undeclared)} not allowed")
        return filters

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        for name in (AFTER, BEFORE):  # not filters, and not to be kept in links to other filters
            self.params.pop(name, None)
            self.filter_params.pop(name, None)
        rows = super().get_queryset(request, *args, **kwargs)
        excluded = getattr(self.model_admin, "list_exclude", Q(pk__in=[]))
        return rows.exclude(excluded).defer(*getattr(self.model_admin, "list_defer", ()))

    def get_results(self, request: HttpRequest) -> None:
        """Replace Django's: it counts all rows and pages by OFFSET."""
        rows = page(self.queryset, request.GET.dict(), self.list_per_page)
        self.result_list, self.paginator = rows.rows, UncountedPaginator(rows.rows, self.list_per_page)
        self.earlier = self.get_query_string({BEFORE: rows.earlier}) if rows.earlier else ""
        self.later = self.get_query_string({AFTER: rows.later}) if rows.later else ""
        # No total is known; templates that print one print the number of rows on the page.
        self.result_count = self.full_result_count = len(rows.rows)
        self.show_full_result_count = self.can_show_all = False
        self.multi_page = self.show_admin_actions = True


class ConsoleAdmin(ModelAdmin[Row]):
    """A read-only list that pages by keyset, and a page with tables of child rows below the fields."""

    list_defer: ClassVar[Sequence[str]] = ()
    list_exclude: ClassVar[Q] = Q(pk__in=[])  # rows that the list never shows
    linked_lookups: ClassVar[Sequence[str]] = ()  # allowed beside the filters: links of other pages use them
    list_per_page = 50
    list_fullwidth = True
    list_filter_submit = True
    list_disable_select_all = True
    list_live: ClassVar[bool] = False  # True: the list refreshes itself
    empty_value_display = NOTHING
    change_list_template = "punctual_console/kit/change_list.html"
    change_form_template = "punctual_console/kit/change_form.html"
    empty_text: ClassVar[str] = ""  # shown when the table has no rows
    paginator = UncountedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # a facet costs a COUNT per choice
    change_form_outer_after_template = "punctual_console/kit/sections.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetChangeList

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Row | None = None) -> Any:
        """Leave out read-only fields without a value."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            return fieldsets
        readonly = set(self.get_readonly_fields(request, obj))

        def has_value(name: str) -> bool:
            return name not in readonly or lookup_field(name, obj, self)[2] not in (NOTHING, None, "")

        lines = [
            (name, {**options, "fields": nonempty_lines(options["fields"], has_value)})
            for name, options in fieldsets
        ]
        return [(name, options) for name, options in lines if options["fields"]]

    def page_title(self, row: Row) -> str:
        return str(row)

    def is_live(self, row: Row) -> bool:
        """Return whether the page of this row refreshes itself."""
        return False

    def sections(self, row: Row) -> list[Section]:
        """Return the tables below the fields."""
        return []

    def sections_for(self, request: HttpRequest, row: Row) -> list[Section]:
        """Return the tables below the fields; override it where the query string selects something."""
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
        context["sections"] = [] if obj is None else self.sections_for(request, obj)
        if obj is not None:
            named: Any = obj
            named.page_title = context["subtitle"] = self.page_title(obj)
            context["live_url"] = request.get_full_path() if self.is_live(obj) else ""
        return super().render_change_form(request, context, add, change, form_url, obj)


def nonempty_lines(lines: Iterable[Any], has_value: Callable[[str], bool]) -> list[Line]:
    """Drop fields without a value from the lines of a fieldset, and lines that become empty.

    A name stands alone on its line; the names of a tuple share one.
    """
    kept = (tuple(filter(has_value, (line,) if isinstance(line, str) else line)) for line in lines)
    return [line if len(line) > 1 else line[0] for line in kept if line]
