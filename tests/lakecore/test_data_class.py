"""Data classes of lakecore do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lakecore import data_class
from lakecore.data_class import dataclass

OURS: Callable[..., Any] = data_class.dataclass
FLAGS = ("frozen", "slots", "kw_only", "eq", "repr", "order")
CASES = [
    dict(zip(FLAGS, values, strict=True))
    for values in product((False, True), repeat=len(FLAGS))
    if values[3] or not values[5]  # an order needs eq
]


def both(body: Callable[[], type], **flags: bool) -> tuple[type, type]:
    """The class of the standard library and that of lakecore."""
    return dataclasses.dataclass(**flags)(body()), OURS(**flags)(body())


def plain() -> type:
    class Plain:
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, compare=False)
        d: int = field(default=4, repr=False, kw_only=True)
        e: float = field(default=5.0, init=False)
        f: tuple[int, ...] = field(default_factory=tuple, init=False)
        g: int = field(default=7, hash=False)
        shared: ClassVar[int] = 3

    return Plain


def outcome(act: Callable[[], Any]) -> Any:
    """The value, or the error's class and text."""
    try:
        return act()
    except Exception as err:  # noqa: BLE001 - the errors of both are compared
        return type(err), str(err).replace("'NoneType'", "")


def acts(cls: type) -> Iterator[Any]:
    """Yield the outcomes of what is done with an object of the class: the same for both decorators."""
    one, same, other = cls(a=1), cls(a=1, c=[2]), cls(a=1, d=9)
    for left, right in product((one, same, other), repeat=2):
        yield outcome(lambda left=left, right=right: left == right)
        yield outcome(lambda left=left, right=right: left != right)
        for compare in ("__lt__", "__le__", "__gt__", "__ge__"):
            yield outcome(lambda left=left, right=right, name=compare: getattr(left, name)(right))
    yield one == 1
    yield (hash(one) == hash(same), hash(one) == hash(other)) if cls.__hash__ else None
    yield repr(one) if cls.__repr__ is not object.__repr__ else None
    yield dataclasses.asdict(one)
    yield dataclasses.asdict(dataclasses.replace(one, a=5, c=[1]))
    yield dataclasses.asdict(copy.deepcopy(one))
    yield [(each.name, each.type, each.default, each.kw_only) for each in dataclasses.fields(cls)]
    yield cls.__match_args__
    for wrong in ({}, {"a": 1, "z": 2}, {"a": 1, "e": 2}):
        yield outcome(lambda wrong=wrong: cls(**wrong))
    yield outcome(lambda: cls(1, "x", [3]).b)
    yield outcome(lambda: setattr(one, "a", 2))
    yield outcome(lambda: delattr(one, "b"))
    yield one.a, getattr(one, "b", None), cls.shared, hasattr(one, "__dict__")


@pytest.mark.parametrize("flags", CASES, ids=lambda flags: "-".join(k for k, v in flags.items() if v))
def test_both_decorators_make_the_same(flags: dict[str, bool]) -> None:
    standard, ours = both(plain, **flags)
    assert list(acts(ours)) == list(acts(standard))


def test_methods_that_are_written_stay() -> None:
    def written() -> type:
        class Written:
            a: int

            def __init__(self) -> None:
                object.__setattr__(self, "a", 3)

            def __eq__(self, other: object) -> bool:
                return True

            def __repr__(self) -> str:
                return "written"

        return Written

    for frozen in (False, True):
        for cls in both(written, frozen=frozen):
            one = cls()
            assert (one.a, repr(one), one == 8) == (3, "written", True)
            assert (cls.__hash__ is None) == (not frozen)

    def hashed() -> type:
        class Hashed:
            a: int = 1

            def __hash__(self) -> int:
                return 5

        return Hashed

    assert [hash(cls()) for cls in both(hashed)] == [5, 5]
    assert [hash(cls()) for cls in both(hashed, frozen=True)] == [5, 5]


@dataclass(frozen=True, slots=True)
class Base:
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError(self.a)


@dataclass(frozen=True, slots=True)
class Derived(Base):
    b: Base | None = None


def test_frozen_classes_with_slots_are_pickled_and_derived() -> None:
    one = Derived(1, Base(2))
    assert pickle.loads(pickle.dumps(one)) == one == copy.copy(one)
    assert {one: 1}[Derived(1, Base(2))] == 1
    assert repr(one) == "Derived(a=1, b=Base(a=2))"
    assert Derived.__init__.__qualname__ == "Derived.__init__"
    assert Derived.__init__.__annotations__ == {"a": "int", "b": "Base | None", "return": None}
    with pytest.raises(ValueError, match="-1"):
        Derived(-1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'b'"):
        one.b = None  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'c'"):
        one.c = None  # type: ignore[attr-defined]


def test_a_value_that_contains_itself_is_represented() -> None:
    for cls in both(plain):
        one = cls(a=1)
        one.c.append(one)
        assert repr(one).endswith("c=[...], e=5.0, f=(), g=7)")


def test_a_number_that_equals_nothing_is_compared_as_in_a_tuple() -> None:
    def single() -> type:
        class Single:
            a: float

        return Single

    nan = float("nan")
    assert [cls(nan) == cls(nan) for cls in both(single)] == [True, True]


@contextmanager
def refused(problem: str) -> Iterator[None]:
    with pytest.raises(TypeError, match=problem):
        yield


def test_what_cannot_be_made_is_refused() -> None:
    with refused("a is an InitVar: write a class method"):

        @OURS
        class WithInitVar:
            a: dataclasses.InitVar[int]

    with refused("needs eq"):

        @OURS(order=True, eq=False)
        class WithOrder:
            a: int

    with refused("cannot define __setattr__"):

        @OURS(frozen=True)
        class Frozen:
            a: int

            def __setattr__(self, name: str, value: Any) -> None:
                pass

    with refused("no parameter unsafe_hash"):
        OURS(unsafe_hash=True)
    with pytest.raises(SyntaxError, match="follows"):

        @OURS
        class Late:
            a: int = 1
            b: int


def test_all_of_lakecore_has_these_classes() -> None:
    package = Path(data_class.__file__).parent
    pattern = re.compile(r"^from dataclasses import .*\bdataclass\b|^import dataclasses", re.MULTILINE)
    others = [path.name for path in package.rglob("*.py") if pattern.search(path.read_text())]
    assert others == ["data_class.py"]
