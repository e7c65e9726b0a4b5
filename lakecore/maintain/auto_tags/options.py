"""This module defines the table options of automatic tags."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.errors import InvalidOptionError
from lakecore.maintain.auto_tags.plan import AutoRule, CreationMode
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum
from lakecore.scan.auto_tags import AutoTagNames

__all__ = [
    "BATCH_NAME",
    "FORCE",
    "IDLE_TIMEOUT",
    "MODE",
    "NUM_RETAINED",
    "PROCESS_ZONE",
    "TIME_EXPIRE",
    "WATERMARK_ZONE",
    "auto_rule",
    "num_retained",
]

MODE = Option(
    "tag.automatic-creation", parse_enum(CreationMode), CreationMode.NONE, "What creates tags automatically."
)
DELAY = Option("tag.creation-delay", parse_duration_ms, 0, "Delay after a period before its tag is created.")
COMPLETION = Option("tag.automatic-completion", parse_bool, False, "Whether missed tags are created later.")
NUM_RETAINED: Option[int | None] = Option(
    "tag.num-retained-max", int, None, "Maximum number of automatic tags."
)
TIME_EXPIRE = Option(
    "tag.time-expire-enabled", parse_bool, True, "Whether tags expire by their own time to live."
)
BATCH_NAME: Option[str | None] = Option(
    "tag.batch.customized-name", str, None, "Name of the tag that a batch write creates."
)
FORCE = Option(
    "commit.force-create-snapshot", parse_bool, False, "Whether a write without rows creates a snapshot."
)
IDLE_TIMEOUT: Option[int | None] = Option(
    "snapshot.watermark-idle-timeout",
    parse_duration_ms,
    None,
    "Age of the watermark from which a write without rows creates a snapshot.",
)
PROCESS_ZONE: Option[str | None] = Option(
    "sink.process-time-zone",
    str,
    None,
    "Time zone of the days and hours of commits; the default is that of the run.",
)
WATERMARK_ZONE = Option(
    "sink.watermark-time-zone", str, "UTC", "Time zone of the days and hours of watermarks."
)


def auto_rule(raw: Mapping[str, str]) -> AutoRule:
    """Return the rule for automatic tags. Rule of the format: the delay is shorter than the period. Raises
    InvalidOptionError.
    """
    names, delay = AutoTagNames.from_options(raw), DELAY.read(raw)
    if delay >= names.length_ms:
        raise InvalidOptionError(
            f"option {DELAY.key}={raw[DELAY.key]!r}: must be shorter than a period ({names.length_ms} ms)"
        )
    return AutoRule(names, delay, COMPLETION.read(raw))


def num_retained(raw: Mapping[str, str]) -> int | None:
    """Return the number of tags to retain. Raises InvalidOptionError for a number that would keep no tag at
    all.
    """
    most = NUM_RETAINED.read(raw)
    if most is not None and most < 1:
        raise InvalidOptionError(
            f"option {NUM_RETAINED.key}={raw[NUM_RETAINED.key]!r}: every tag would be deleted "
            "as soon as it is created; use 1 or more"
        )
    return most
