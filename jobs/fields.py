"""A JSON object typed by a person → its value; a refusal names the line and the column."""

import json
import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextareaWidget  # type: ignore[import-untyped]

NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
CODE = {"spellcheck": "false", "style": "font-family: ui-monospace, monospace"}


class JsonField(forms.CharField):
    """A JSON object as text; what was typed is shown again as it was typed."""

    def __init__(self, **options: Any) -> None:
        attrs = {"rows": options.pop("rows", 6), **CODE}
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs=attrs), **options)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value or {}, indent=2, ensure_ascii=False)

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value or {}
        try:
            return _storable(json.loads(value if value.strip() else "{}", parse_constant=_refuse))
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise ValidationError(f"not JSON: {error.msg} ({where})") from error
        except ValueError as error:
            raise ValidationError(f"not JSON: {error}") from error
        except RecursionError:
            raise ValidationError("not JSON: nested too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _storable(value: Any) -> Any:
    """JSON may spell characters that no database keeps."""
    text = json.dumps(value, ensure_ascii=False)
    text.encode()  # UnicodeEncodeError, a ValueError, names the half of a character
    if NUL.search(text):
        raise ValueError("the character \\u0000 cannot be stored")
    return value
