"""Where the files of a pick will lie among those that stay, in keys and in levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.layout import OutputRange, check_levels, check_row_order
from tests.lakecore.verify.rules.test_drop_licence import file


def check(live: list[DataFile], merged: list[list[DataFile]], moved: list[DataFile], level: int = 5) -> None:
    check_levels(
        "bucket-0",
        live,
        [file for files in merged for file in files],
        [(file, replace(file, level=level)) for file in moved],
        [OutputRange(files, level) for files in merged],
        lambda key: key,
    )


NEW, NEWER = file("new", 0, "cf", (10, 19)), file("newer", 0, "eh", (20, 29))
BESIDE = file("beside", 0, "kz", (0, 9))
MIDDLE, FAR = file("middle", 3, "dd"), file("far", 3, "xz")
TOP, LEFT = file("top", 5, "az"), file("left", 5, "ab")
RIGHT = file("right", 5, "kz")

FIT: dict[str, tuple[list[DataFile], list[list[DataFile]], list[DataFile]]] = {
    "all are merged": ([NEW, NEWER, MIDDLE, TOP], [[NEW, NEWER, MIDDLE, TOP]], []),
    "neighbours stay": ([NEW, NEWER, LEFT, RIGHT], [[NEW, NEWER]], []),
    "one moves beside them": ([NEW, LEFT, RIGHT], [], [NEW]),
    "one moves beside what is merged": ([NEW, NEWER, LEFT, RIGHT, FAR], [[NEW, NEWER], [FAR, RIGHT]], [LEFT]),
    "units of one stretch": ([NEW, NEWER], [[NEW, NEWER], [NEWER, NEW]], []),
    "later ones stay on level 0": ([NEW, NEWER, LEFT], [[NEW]], []),
    "older ones of other keys stay on level 0": ([NEW, BESIDE], [[NEW]], []),
}
UNFIT: dict[str, tuple[list[DataFile], list[list[DataFile]], list[DataFile], str]] = {
    "two that share keys move": ([NEW, NEWER], [], [NEW, NEWER], "new and newer share keys"),
    "one moves, one is merged": ([NEW, NEWER], [[NEW]], [NEWER], "new and newer share keys"),
    "two stretches share keys": ([NEW, NEWER], [[NEW], [NEWER]], [], "new and newer share keys"),
    "one moves over one that stays": ([NEW, TOP], [], [NEW], "the output of new would share keys with top"),
    "one is merged over one that stays": ([NEW, TOP], [[NEW]], [], "the output of new would share keys with top"),
    "a gap is not empty": ([LEFT, NEW, RIGHT], [[LEFT, RIGHT]], [NEW], "left and new share keys"),
    "new rows pass old ones": ([NEW, MIDDLE], [[NEW]], [], "new would move above middle, which shares its keys and stays on level 3"),
    "a file passes old ones": ([NEW, MIDDLE], [], [NEW], "new would move above middle, which shares its keys and stays on level 3"),
    "older ones are left on level 0": ([NEW, NEWER], [[NEWER]], [], "newer rows would move above new"),
    "one moves before older ones": ([NEW, NEWER], [], [NEWER], "newer rows would move above new"),
    "merged with older ones than those that stay": (
        [NEW, MIDDLE, TOP], [[NEW, TOP]], [], "new would move above middle, which shares its keys and stays on level 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIT)
def test_what_fits(name: str) -> None:
    check(*FIT[name])


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit(name: str) -> None:
    *case, match = UNFIT[name]
    with pytest.raises(ProofError, match=match) as caught:
        check(*case)  # type: ignore[arg-type]
    assert caught.value.unit == "bucket-0"


def test_files_that_stay_on_level_0_are_merged_later() -> None:
    check([NEW, NEWER], [[NEW, NEWER]], [], level=0)


def test_rows_of_a_bucket_keep_their_order() -> None:
    first, second, third, fourth = (file(f"f{n}", 0, "aa", (n * 10, n * 10 + 9)) for n in range(4))
    live = [fourth, first, third, second]
    check_row_order("bucket-0", live, [second, third])
    check_row_order("bucket-0", live, [first, second, third, fourth])
    with pytest.raises(ProofError, match="rows of f1 come before those of f2"):
        check_row_order("bucket-0", live, [third, second])
    with pytest.raises(ProofError, match="rows of f1, which stays, lie between"):
        check_row_order("bucket-0", live, [first, third])
