"""This module decides in which directory outside the table's own a new data file is placed, by options and
the name of the file alone.

Rules of the format (options `data-file.external-paths` and `data-file.external-paths.strategy`): without a
strategy new files are in the table's directory. With one, the path of a data or changelog file is recorded
with it. It is `<external path>/<path of the bucket below the table>/<name>`; `entropy-inject` has directories
made from the name before it, so that a store spreads the requests. Files that belong to a data file
(indexes, lookup files) are beside it. Readers go by the recorded path alone, so that each engine chooses
among the external paths as it likes. Java takes turns or draws lots. Here the hash of the name decides: every
attempt at a file repeats that choice, and files are spread as evenly as by lots.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import accumulate
from zlib import crc32

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.fs.allowed_paths import EXTERNAL_PATHS, EXTERNAL_ROOTS, is_below
from lakecore.fs.confined import ConfinedFileIO
from lakecore.fs.file_io import FileIO
from lakecore.fs.resolve import plain_path
from lakecore.options import Option, parse_enum, parse_list

__all__ = [
    "ExternalBucket",
    "ExternalPlaces",
    "PlaceStrategy",
    "check_external_paths",
    "external_bucket",
    "external_directories",
    "external_places",
]


class PlaceStrategy(Enum):
    """It says how one of several external paths is chosen for a new file."""

    NONE = "none"
    SPECIFIC_FS = "specific-fs"
    ROUND_ROBIN = "round-robin"
    ENTROPY_INJECT = "entropy-inject"
    WEIGHTED = "weight-robin"


STRATEGY = Option(
    "data-file.external-paths.strategy",
    parse_enum(PlaceStrategy),
    PlaceStrategy.NONE,
    "How an external path is chosen for a new file.",
)
SPECIFIC_FS: Option[str | None] = Option(
    "data-file.external-paths.specific-fs", str.strip, None, "The scheme of the external paths that are used."
)


def _parse_weights(text: str) -> tuple[int, ...]:
    weights = tuple(int(part) for part in parse_list(text))
    if min(weights, default=0) <= 0:
        raise ValueError("weights are positive integers, as in 10,5")
    return weights


WEIGHTS: Option[tuple[int, ...]] = Option(
    "data-file.external-paths.weights",
    _parse_weights,
    (),
    "The shares of the external paths, in their order.",
)


@dataclass(frozen=True, slots=True)
class ExternalBucket:
    """These are the places of new files of one bucket. `relative` is the path of the bucket below the table,
    `roots` are external paths in the form in which they are recorded, `shares` are the sums of their weights
    up to each. It can be pickled.
    """

    relative: str
    roots: tuple[str, ...]
    shares: tuple[int, ...]
    spreads: bool = False
    """If it is True, directories made from the name come before it."""

    def location(self, name: str) -> str:
        """Return the location of a new data file, as its description records it."""
        number = crc32(name.encode())
        root = self.roots[bisect_right(self.shares, number % self.shares[-1])]
        spread = f"{_entropy(number)}/" if self.spreads else ""
        return f"{root}/{self.relative}/{spread}{name}"

    def path(self, name: str) -> str:
        """Return the plain path of the same file."""
        return plain_path(self.location(name))


@dataclass(frozen=True, slots=True)
class ExternalPlaces:
    """These are the external paths of a table, as `ExternalBucket` has them."""

    roots: tuple[str, ...]
    shares: tuple[int, ...]
    spreads: bool

    def of_bucket(self, table_path: str, bucket_dir: str) -> ExternalBucket:
        """Return the places of one bucket."""
        relative = bucket_dir.removeprefix(f"{table_path}/")
        return ExternalBucket(relative, self.roots, self.shares, self.spreads)


def external_places(options: Mapping[str, str]) -> ExternalPlaces | None:
    """Return where new files of a table are; None where they are in its directory. `options` are those of its
    schema. Raises InvalidOptionError.
    """
    strategy = STRATEGY.read(options)
    roots = EXTERNAL_PATHS.read(options)
    if strategy is PlaceStrategy.NONE or not roots:
        return None
    weights = _weights(strategy, roots, options)
    if strategy is PlaceStrategy.SPECIFIC_FS:
        roots = _of_scheme(roots, SPECIFIC_FS.read(options))
        weights = (1,) * len(roots)
    spreads = strategy is PlaceStrategy.ENTROPY_INJECT
    return ExternalPlaces(tuple(map(_location_of_root, roots)), tuple(accumulate(weights)), spreads)


def external_bucket(table_path: str, bucket_dir: str, options: Mapping[str, str]) -> ExternalBucket | None:
    """Return the external places of a bucket of the table; None where new files are in `bucket_dir`. Raises
    InvalidOptionError.
    """
    places = external_places(options)
    return None if places is None else places.of_bucket(table_path, bucket_dir)


def external_directories(
    table_path: str, bucket_dirs: Iterable[str], options: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the plain paths of the directories in which new files of buckets are, each once, the buckets'
    own included.

    With `entropy-inject` only the buckets' own are returned: the other ones are more than can be listed.
    """
    places = external_places(options)
    if places is None or places.spreads:
        return tuple(dict.fromkeys(bucket_dirs))
    directories: list[str] = []
    for bucket_dir in bucket_dirs:
        relative = places.of_bucket(table_path, bucket_dir).relative
        directories += [bucket_dir, *(plain_path(f"{root}/{relative}") for root in places.roots)]
    return tuple(dict.fromkeys(directories))


def check_external_paths(table: str, options: Mapping[str, str], file_io: FileIO) -> None:
    """Check that new files may be written where the options place them: below roots that the catalog
    declares.

    Raises InvalidOptionError for options that name no place, UnsupportedError for a path that the catalog
    option `external-roots` does not allow.
    """
    places = external_places(options)
    if places is None or not isinstance(file_io, ConfinedFileIO):
        return
    declared = file_io.allowed.declared or ()
    for path in map(plain_path, places.roots):
        if not any(path == one or is_below(path, one) for one in declared):
            raise UnsupportedError(
                f"{table} has {EXTERNAL_PATHS.key}={options[EXTERNAL_PATHS.key]!r}, so new files belong "
                f"below {path}, where lakecore writes nothing until somebody allows it: add it to the "
                f"catalog option {EXTERNAL_ROOTS.key}"
            )


def _weights(strategy: PlaceStrategy, roots: tuple[str, ...], options: Mapping[str, str]) -> tuple[int, ...]:
    """Return the weight of each external path. Rule of the format: without weights they are equal."""
    weights = WEIGHTS.read(options)
    if strategy is not PlaceStrategy.WEIGHTED or len(roots) < 2 or not weights:
        return (1,) * len(roots)
    if len(weights) != len(roots):
        raise InvalidOptionError(
            f"option {WEIGHTS.key}={options[WEIGHTS.key]!r} has {len(weights)} weights for the {len(roots)} "
            f"paths of {EXTERNAL_PATHS.key}; give one for each"
        )
    return weights


def _of_scheme(roots: tuple[str, ...], scheme: str | None) -> tuple[str, ...]:
    if not scheme:
        raise InvalidOptionError(
            f"{STRATEGY.key}={PlaceStrategy.SPECIFIC_FS.value} needs {SPECIFIC_FS.key}: a scheme, as in s3"
        )
    chosen = tuple(root for root in roots if root.partition(":")[0].lower() == scheme.lower())
    if not chosen:
        raise InvalidOptionError(
            f"{SPECIFIC_FS.key}={scheme!r}: no path of {EXTERNAL_PATHS.key} has this scheme"
        )
    return chosen


def _location_of_root(root: str) -> str:
    """Return the form that Java records, `file:/a` for `file:///a`. Raises InvalidOptionError without a
    scheme, which Java refuses, too.
    """
    scheme, colon, rest = root.partition(":")
    if not colon or "/" in scheme or not rest.strip("/"):
        raise InvalidOptionError(
            f"{EXTERNAL_PATHS.key} has {root!r}; each path has a scheme, as in file:///data or s3://bucket/data"
        )
    rest = rest.rstrip("/")
    if scheme.lower() == "file":
        rest = f"/{rest.lstrip('/')}"
    return f"{scheme}:{rest}"


def _entropy(number: int) -> str:
    """Return three directories of four bits and one of eight, as Java makes them."""
    bits = f"{number & 0xFFFFF:020b}"
    return "/".join((bits[:4], bits[4:8], bits[8:12], bits[12:]))
