"""JSON fields of the editor: parsed, refused with a position, shown again as typed."""

import pytest
from django.core.exceptions import ValidationError

from punctual.console.definitions.editor_forms import JobForm, JsonField

pytestmark = pytest.mark.req("JOB-3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ('{"a": "夜"}', {"a": "夜"}),
        ("[1]", [1]),
        ('"\\\\u0000"', "\\u0000"),
    ],
)
def test_json_is_read(text: str, value: object) -> None:
    assert JsonField().clean(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1, column 2"),
        ('{"a": 1}\n{', "line 2, column 1"),
        ('{"a": Infinity}', "Infinity is not a JSON number"),
        ('{"a": "\\u0000"}', "cannot be stored"),
        ('{"\\ud800": 1}', "surrogates not allowed"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_invalid_or_unstorable_json_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        JsonField().clean(text)
    assert reason in str(refused.value)


def test_a_value_is_shown_indented_and_typed_text_unchanged() -> None:
    assert JsonField().prepare_value({"a": "夜"}) == '{\n  "a": "夜"\n}'
    assert JsonField().prepare_value('{"a":1 ') == '{"a":1 '
    assert JsonField().prepare_value(None) == "{}"


def test_the_form_of_a_new_job_has_no_update_policy() -> None:
    assert "policy" not in JobForm().fields
    assert "policy" in JobForm(name="etl").fields


def test_the_name_of_an_existing_job_cannot_be_changed() -> None:
    form = JobForm({"name": "other"}, name=" etl ")
    form.is_valid()
    assert form.cleaned_data["name"] == " etl "
