"""Errors cross process borders (Spark, Airflow) and still say what they said."""

from __future__ import annotations

import inspect
import pickle

import pytest

from lakecore import errors


def _examples() -> list[errors.LakeError]:
    found = []
    kinds = [kind for kind in (getattr(errors, name) for name in errors.__all__) if isinstance(kind, type)]
    for kind in kinds:
        count = len(inspect.signature(kind).parameters) if kind.__init__ is not Exception.__init__ else 1
        found.append(kind(*(f"part{i}" for i in range(max(1, min(count, 2))))))
    return found


@pytest.mark.parametrize("error", _examples(), ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_its_message(error: errors.LakeError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error) != ""


def test_corrupt_data_names_path_and_problem() -> None:
    text = str(errors.CorruptDataError("snapshot/snapshot-3", "not JSON"))
    assert text.startswith("snapshot/snapshot-3: not JSON; restore it from a copy")


def test_what_other_libraries_say_fits_on_a_line() -> None:
    with pytest.raises(UnicodeDecodeError) as bad_text:
        (b"x" * 5000 + b"\xff").decode()
    assert errors.reason(bad_text.value) == "not UTF-8 text at byte 5000"
    assert errors.reason(KeyError("commitUser")) == "'commitUser' is missing"
    assert errors.reason(ValueError("a\nb" * 500)).startswith("a ba b")
    assert len(errors.reason(ValueError("a\nb" * 500))) <= 200
    assert errors.reason(StopIteration()) == "StopIteration"
