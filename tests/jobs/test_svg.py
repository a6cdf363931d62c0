"""Drawings say what they show, escape what they are told, and never speak by colour alone."""

import pytest
from django.utils.safestring import SafeString

from jobs.svg import bar, dot, linked, picture, word

pytestmark = pytest.mark.req("OPS-2")


def test_a_picture_has_a_name_for_those_who_cannot_see_it() -> None:
    text = picture(10, [], label='3 starts, "one" failed')
    assert 'role="img"' in text
    assert 'aria-label="3 starts, &quot;one&quot; failed"' in text


def test_lengths_are_shares_of_the_width_and_short() -> None:
    assert 'x="33.33%" width="10%"' in bar("good", 100 / 3, 10, y=0, height=4)


def test_what_a_drawing_is_told_is_escaped() -> None:
    shapes = [
        bar("bad", 0, 1, y=0, height=1, title="<script>"),
        dot("planned", 0, 0, title="<script>"),
        word("<script>", 0, 0),
        linked('"><script>', SafeString("<g/>")),
    ]
    assert "<script>" not in picture(1, shapes, label="<script>")


def test_the_pattern_that_marks_failures_is_in_every_picture() -> None:
    assert 'id="hatch"' in picture(1, [], label="")
