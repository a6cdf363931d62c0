"""The table of a list: sortable where an index exists, accessible, and small."""

import re
from datetime import datetime

import pytest
from django.test import Client

from tests.console.fixtures import page
from tests.console.ledger_rows import make_job, make_occurrence

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


def test_a_header_sorts_by_its_column_in_both_directions(root: Client, now: datetime) -> None:
    for name in ("a", "b"):
        make_job(name, now)
    up = page(root, "/admin/punctual/job/")
    assert 'aria-sort="ascending"' in up
    turned = re.search(r'<th scope="col" aria-sort="ascending"><a href="([^"]+)"', up)
    assert turned is not None
    down = page(root, f"/admin/punctual/job/{turned[1]}")
    assert 'aria-sort="descending"' in down
    assert [one in down for one in (">a</span>", ">b</span>")] == [True, True]
    assert down.index(">b</span>") < down.index(">a</span>")


def test_a_list_of_millions_of_rows_cannot_be_sorted_by_a_click(root: Client, now: datetime) -> None:
    make_occurrence(make_job("etl", now), now)
    text = page(root, "/admin/punctual/occurrence/")
    head = text[text.index("<thead>") : text.index("</thead>")]
    assert "<a" not in head


def test_a_list_is_named_and_each_cell_knows_its_header(root: Client, now: datetime) -> None:
    make_occurrence(make_job("etl", now), now)
    text = page(root, "/admin/punctual/occurrence/")
    assert '<caption class="hushed">occurrences</caption>' in text
    assert '<th scope="row" data-label="id">' in text
    assert '<td data-label="scheduled for">' in text


def test_a_row_costs_few_bytes(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    for second in range(50):
        make_occurrence(job, now.replace(second=second))
    text = page(root, "/admin/punctual/occurrence/")
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert len(body) / 50 < 1500


def test_an_empty_list_says_what_it_will_contain_and_a_filtered_one_that_nothing_matches(
    root: Client,
) -> None:
    assert "has its next occurrence here within seconds" in page(root, "/admin/punctual/occurrence/")
    narrowed = page(root, "/admin/punctual/occurrence/?state__exact=failed")
    assert "Nothing matches" in narrowed
    assert "within seconds" not in narrowed
