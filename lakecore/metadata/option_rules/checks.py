"""This module refuses options of Paimon that would have no effect in lakecore, by name, and warns of those
that another engine has set. It is pure.

An option that is stored in a table speaks to all engines of the table; one that is given for a run speaks to
lakecore. So the rule has three parts:

1. What lakecore sets (create, alter) or is given for a run is obeyed, or refused by name. Options that only
   direct other engines (`unused_options`), and options that Paimon does not have, may be stored by lakecore,
   too, but not given for a run.
2. An option that another engine has stored prevents only the operation whose rows or changes would be wrong
   without it, or would be shown to people who must not see them (`REFUSED_BY` in `refused_options`).
3. Other options that lakecore does not obey never prevent reads and maintenance. A write warns of them: it is
   the operation that they ask for something.

docs/options.md lists the class of every option.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.errors import InvalidOptionError
from lakecore.metadata.option_rules.known_options import is_known_option, similar_options
from lakecore.metadata.option_rules.refused_options import REFUSED, WARNED
from lakecore.metadata.option_rules.unused_options import UNUSED, UNUSED_PREFIXES

__all__ = ["check_new_option", "check_run_option", "option_warnings", "unused_reason"]

_OTHER_WARNINGS = ("commit.callbacks", "tag.callbacks", "metadata.iceberg.storage")
_OTHERS = {key: why for key, why in WARNED.items() if key not in _OTHER_WARNINGS}
"""`lakecore.metadata.callbacks` warns of the rest."""
_FOR_SPARK = (
    "it is for spark.read and spark.readStream; `Scan.to_spark` has the argument parallelism, and a poll of "
    "`Table.stream` has one snapshot"
)
_NOT_FOR_RUNS = {
    **dict.fromkeys(
        (
            "scan.parallelism",
            "scan.infer-parallelism",
            "scan.infer-parallelism.max",
            "source.checkpoint-align.enabled",
        ),
        _FOR_SPARK,
    ),
    **dict.fromkeys(
        ("num-sorted-run.stop-trigger", "lookup-wait", "changelog-producer.lookup-wait"),
        "ConcurrentServices obey what the table stores (alter-table), and other writers wait for each "
        "compaction",
    ),
}
"""These options are obeyed elsewhere: the reader of Spark takes its own before it loads a table."""


def check_new_option(key: str, value: str) -> None:
    """Raise InvalidOptionError if lakecore does not set the option, because it would not obey it."""
    if (why := _refused_because(key, value)) is not None:
        raise InvalidOptionError(
            f"option {key}={value}: this release does not obey it: {why}; leave it out, or set it with the "
            "engine that obeys it"
        )


def check_run_option(key: str, value: str) -> None:
    """Raise InvalidOptionError if the option has no effect on a run of lakecore."""
    why = _refused_because(key, value) or unused_reason(key) or _NOT_FOR_RUNS.get(key)
    if why is not None:
        raise InvalidOptionError(f"option {key}={value}: it has no effect here: {why}; leave it out")
    if key not in REFUSED and not is_known_option(key):
        names = similar_options(key)
        hint = (
            f"did you mean {' or '.join(names)}?"
            if names
            else "leave it out; options of stores and catalogs are given to the catalog"
        )
        raise InvalidOptionError(  # the value may be a secret of a catalog
            f"option {key}: neither Paimon nor lakecore has an option of a table with this name, and it "
            f"would have no effect; {hint}"
        )


def option_warnings(raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings for a writer about stored options that it does not obey; empty for most tables."""
    return tuple(
        f"option {key}={value}: this release does not obey it: {why}"
        for key, value in raw.items()
        if (why := _refused_because(key, value) or _OTHERS.get(key)) is not None
    )


def unused_reason(key: str) -> str | None:
    """Return why lakecore does not need the option; None for an option that is obeyed, refused or unknown."""
    prefixes = (why for begin, why in UNUSED_PREFIXES.items() if key.startswith(begin))
    return UNUSED.get(key) or next(prefixes, None)


def _refused_because(key: str, value: str) -> str | None:
    refusal = REFUSED.get(key)
    return None if refusal is None or value.strip().lower() in refusal.same else refusal.why
