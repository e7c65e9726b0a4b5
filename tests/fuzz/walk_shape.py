"""The kinds of tables that random walks over chores begin with. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Shape", "random_shape"]


@dataclass(frozen=True)
class Shape:
    """It says what kind of table it is: `append` has no primary key, `moves` has keys without the partition."""

    engine: str
    partitioned: bool
    moves: bool
    vectors: bool
    bucket: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def keyed(self) -> bool:
        return self.engine != "append"

    @property
    def primary(self) -> list[str]:
        if not self.keyed:
            return []
        return ["p", "k"] if self.partitioned and not self.moves else ["k"]

    @property
    def streams(self) -> bool:
        """Return whether its changes are whole rows, which streams need."""
        return self.engine not in ("partial-update", "aggregation") or "changelog-producer" in self.options

    @property
    def reads_overwrites(self) -> bool:
        return "streaming-read-overwrite" in self.options

    def schema(self) -> dict[str, Any]:
        return {
            "columns": ["p STRING NOT NULL", "k INT NOT NULL", "v STRING", "n INT"],
            "primaryKeys": self.primary,
            "partitionKeys": ["p"] if self.partitioned else [],
            "options": self.options | {"bucket": self.bucket, "snapshot.num-retained.min": "1"},
        }


def random_shape(dice: random.Random) -> Shape:
    engine = dice.choice(
        ("append", "append", "deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
    )
    partitioned = dice.random() < 0.7
    moves = engine == "deduplicate" and partitioned and dice.random() < 0.3
    bucket = "-1" if moves else dice.choice(("1", "2", "3", "-1"))
    vectors = engine != "first-row" and not moves and dice.random() < 0.35
    options = {
        "num-sorted-run.compaction-trigger": "3",
        "file.format": dice.choice(("parquet", "orc", "avro")),
    }
    if engine != "append":
        options["merge-engine"] = engine
    elif bucket != "-1":
        options["bucket-key"] = "k"
    if engine == "aggregation":
        options |= {
            "fields.v.aggregate-function": "last_non_null_value",
            "fields.n.aggregate-function": "sum",
        }
    if engine == "first-row":
        options["changelog-producer"] = "lookup"
    elif engine != "append" and dice.random() < 0.35:
        options["changelog-producer"] = "lookup" if vectors else dice.choice(("lookup", "full-compaction"))
    if vectors:
        options["deletion-vectors.enabled"] = "true"
    plain = engine == "deduplicate" and "changelog-producer" not in options
    for chance, some in (
        (0.3, {"streaming-read-overwrite": "true"} if plain else {}),
        (0.2, {"manifest.merge-min-count": "2"}),
        (0.2, {"manifest.full-compaction-threshold-size": "1 b"}),
        (0.2, {"file-index.bloom-filter.columns": "k"}),
        (0.2, {"file-index.bitmap.columns": "n", "file-index.in-manifest-threshold": "1 b"}),
        (0.2, {"target-file-size": "1 kb"}),
        (0.2, {"dynamic-bucket.target-row-num": "3"} if bucket == "-1" and engine != "append" else {}),
        (0.2, {"metadata.stats-mode": "none"}),
        (0.15, {"data-file.thin-mode": "true"} if engine != "append" else {}),
    ):
        if dice.random() < chance:
            options |= some
    return Shape(engine, partitioned, moves, vectors, bucket, options)
