from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.execution.ending.fingerprint import LENGTH, fingerprint, normalize_message
from punctual.execution.ending.outcome import Ending, Result
from punctual.execution.worker.failure import result_of_error

pytestmark = pytest.mark.req("TSK-6")


def here(error: Exception) -> None:
    raise error


def elsewhere(error: Exception) -> None:
    raise error


def raised(error: Exception, place: Callable[[Exception], None] = here) -> Result:
    with pytest.raises(type(error)) as caught:
        place(error)
    return result_of_error(caught.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 not found", "order 4711 not found"),
        (f"no row {UUID(int=2**100)}", f"no row {UUID(int=3**70)}"),
        ("<object at 0x7f10a0>", "<object at 0x7fe3b8>"),
        ("took 1.5 s,  at 12:03:55", "took 17.25 s, at 23:59:01"),
        ("commit deadbeef01 is bad", "commit 0badcafe99 is bad"),
    ],
)
def test_the_same_error_with_other_numbers_has_the_same_fingerprint(one: str, other: str) -> None:
    assert fingerprint(raised(ValueError(one))) == fingerprint(raised(ValueError(other)))


def test_another_type_message_or_place_is_another_error() -> None:
    results = [
        raised(ValueError("broken")),
        raised(KeyError("broken")),
        raised(ValueError("beyond repair")),
        raised(ValueError("broken"), elsewhere),
        Result(Ending.LOST, error_type="WorkerLost", error="ended by SIGKILL"),
    ]
    assert len({fingerprint(result) for result in results}) == len(results)


def test_words_are_not_taken_for_numbers() -> None:
    assert normalize_message("defaced facade added") == "defaced facade added"
    assert normalize_message("a  b\n c") == "a b c"


@pytest.mark.parametrize("ending", [Ending.LOST, Ending.TIMEOUT])
def test_lost_and_timed_out_attempts_have_the_same_fingerprint_on_every_host(ending: Ending) -> None:
    texts = ("worker1@here/17 fell silent", "worker2@there/4711 fell silent")
    prints = {fingerprint(Result(ending, error_type="WorkerLost", error=text)) for text in texts}
    assert len(prints) == 1


@given(st.text(), st.text(), st.text())
def test_a_fingerprint_always_fits_its_column(error_type: str, error: str, traceback: str) -> None:
    found = fingerprint(Result(Ending.FAILED, error_type=error_type, error=error, traceback=traceback))
    assert len(found) == LENGTH
    assert found.isalnum()
