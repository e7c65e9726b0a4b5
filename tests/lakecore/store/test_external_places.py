"""New files outside of the table's directory are placed as the options say."""

from __future__ import annotations

from collections import Counter

import pytest

from lakecore.errors import InvalidOptionError
from lakecore.store.external_places import external_bucket, external_directories

TABLE = "s3://b/wh/d.db/t"
BUCKET = f"{TABLE}/p=1/bucket-0"
PATHS = "s3://cold/x/, file:///data"
STRATEGY = "data-file.external-paths.strategy"
WEIGHTS = "data-file.external-paths.weights"


OPTIONS = {"data-file.external-paths": PATHS}


def places(options: dict[str, str], count: int = 4000) -> Counter[str]:
    bucket = external_bucket(TABLE, BUCKET, options)
    assert bucket is not None
    names = [f"data-{number}.parquet" for number in range(count)]
    assert all(bucket.location(name).endswith(f"/{name}") for name in names)
    return Counter(bucket.location(name).removesuffix(f"/{name}") for name in names)


def test_files_are_inside_without_a_strategy_or_a_path() -> None:
    assert external_bucket(TABLE, BUCKET, OPTIONS) is None
    assert external_bucket(TABLE, BUCKET, {STRATEGY: "round-robin"}) is None
    assert external_directories(TABLE, [BUCKET], OPTIONS) == (BUCKET,)


def test_paths_share_the_files() -> None:
    found = places(OPTIONS | {STRATEGY: "round-robin"})
    assert found.keys() == {"s3://cold/x/p=1/bucket-0", "file:/data/p=1/bucket-0"}
    assert min(found.values()) > 1800
    weighted = places(OPTIONS | {STRATEGY: "weight-robin", WEIGHTS: "1,3"})
    assert 850 < weighted["s3://cold/x/p=1/bucket-0"] < 1150
    alone = places(OPTIONS | {STRATEGY: "specific-fs", "data-file.external-paths.specific-fs": "S3"})
    assert set(alone) == {"s3://cold/x/p=1/bucket-0"}


def test_entropy_spreads_files_over_directories() -> None:
    found = places(OPTIONS | {STRATEGY: "entropy-inject"})
    assert len(found) > 3500
    assert {len(place.removeprefix("s3://cold/x/p=1/bucket-0/").removeprefix("file:/data/p=1/bucket-0/"))
            for place in found} == {len("1010/1010/1010/10101010")}  # fmt: skip


def test_directories_that_are_searched() -> None:
    options = OPTIONS | {STRATEGY: "round-robin"}
    assert external_directories(TABLE, [BUCKET], options) == (
        BUCKET, "s3://cold/x/p=1/bucket-0", "/data/p=1/bucket-0"
    )  # fmt: skip
    assert external_directories(TABLE, [BUCKET], options | {STRATEGY: "entropy-inject"}) == (BUCKET,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({STRATEGY: "round-robin", "data-file.external-paths": "/data"}, "each path has a scheme"),
        ({STRATEGY: "round-robin", "data-file.external-paths": "s3://"}, "each path has a scheme"),
        ({STRATEGY: "specific-fs"}, "needs data-file.external-paths.specific-fs"),
        ({STRATEGY: "specific-fs", "data-file.external-paths.specific-fs": "oss"}, "no path of"),
        ({STRATEGY: "weight-robin", WEIGHTS: "1"}, "1 weights for the 2 paths"),
        ({STRATEGY: "weight-robin", WEIGHTS: "1,0"}, "positive"),
        ({STRATEGY: "random"}, "random"),
    ],
)
def test_options_that_name_no_place(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        external_bucket(TABLE, BUCKET, OPTIONS | options)
