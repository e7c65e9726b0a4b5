"""This module has operators that create, replace, rename, delete and expire tags."""

from __future__ import annotations

from lakecore.jobs.definitions.tags import CreateTag, DeleteTag, ExpireTags, RenameTag, ReplaceTag
from lakecore_airflow.tasks.chore import ChoreOperator

__all__ = [
    "CreateTagOperator",
    "DeleteTagOperator",
    "ExpireTagsOperator",
    "RenameTagOperator",
    "ReplaceTagOperator",
]


class CreateTagOperator(ChoreOperator):
    """Tag a snapshot. Give at most one of `snapshot`, `timestamp` and `watermark`; without any, the latest
    snapshot is tagged.

    A retry, or a second run for the same snapshot, finds the tag and does nothing.

    :param tag: its name, for example `{{ ds }}`.
    :param timestamp: the first snapshot committed at or after this time.
    :param watermark: the first snapshot with at least this watermark, in milliseconds.
    :param time_retained: how long the tag stays, for example `7 d`.
    :param ignore_if_exists: a tag of that name is left as it is, whatever it stands for.
    """

    definition = CreateTag
    names_are = "tags"


class ReplaceTagOperator(ChoreOperator):
    """Move a tag to another snapshot, without a gap."""

    definition = ReplaceTag
    names_are = "tags"


class RenameTagOperator(ChoreOperator):
    """Rename a tag."""

    definition = RenameTag
    names_are = "tags"


class DeleteTagOperator(ChoreOperator):
    """Delete tags and the files that only they need.

    :param tags: names, as a list or split by commas.
    """

    definition = DeleteTag
    names_are = "tags"


class ExpireTagsOperator(ChoreOperator):
    """Delete tags whose retention time has passed, and those created before `older_than`.

    :param keep_newest: always keep this many of the tags that were created last.
    """

    definition = ExpireTags
    names_are = "tags"
