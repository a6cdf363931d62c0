"""Drawings have a label, escape their texts, and never rely on colour alone."""

import pytest
from django.utils.safestring import SafeString

from punctual.console.kit.charts import bar, dot, label_text, link_shapes, picture

pytestmark = pytest.mark.req("OPS-2")


def test_a_picture_has_a_label_for_screen_readers() -> None:
    text = picture(10, [], label='3 starts, "one" failed')
    assert 'role="img"' in text
    assert 'aria-label="3 starts, &quot;one&quot; failed"' in text


def test_lengths_are_rounded_percentages_of_the_width() -> None:
    assert 'x="33.33%" width="10%"' in bar("good", 100 / 3, 10, y=0, height=4)


def test_every_text_of_a_drawing_is_escaped() -> None:
    shapes = [
        bar("bad", 0, 1, y=0, height=1, title="<script>"),
        dot("planned", 0, 0, title="<script>"),
        label_text("<script>", 0, 0),
        link_shapes('"><script>', SafeString("<g/>")),
    ]
    assert "<script>" not in picture(1, shapes, label="<script>")


def test_every_picture_has_the_pattern_of_failures() -> None:
    assert 'id="hatch"' in picture(1, [], label="")
