"""This module commits new descriptions of files: nothing but the indexes of a file changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from lakecore.compact.engine.commit_loop import CommitDraft
from lakecore.compact.engine.work import Place
from lakecore.compact.kinds.file_index.run import Rewritten
from lakecore.errors import CommitConflictError, ProofError
from lakecore.index.container import INDEX_SUFFIX
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.proof.commit_check import Bucket, CommitClaim, check_commit

__all__ = ["FileKey", "IndexCommits", "file_key"]

logger = logging.getLogger(__name__)

FileKey = tuple[bytes, int, str]
"""It identifies a file by its serialised partition, its bucket and its name."""


def file_key(place: Place, file: DataFile) -> FileKey:
    """Return the name of a file in its table."""
    return place.partition, place.bucket, file.file_name


class IndexCommits:
    """This class commits files with new indexes (`lakecore.compact.engine.commit_loop.Commits`)."""

    overwrites = False
    preconditions = None

    def draft(self, items: Sequence[Rewritten]) -> CommitDraft:
        """Return one try; nothing is written for it."""
        messages = _messages(items)
        return CommitDraft(messages=messages, faults=partial(_faults, items, messages))

    def affected(self, items: Sequence[Rewritten], err: CommitConflictError) -> list[Rewritten]:
        """Return the files that the conflict names."""
        names = set(err.files)
        lost_files = [file for file in items if file_key(file.need.place, file.after) in names]
        if lost_files:
            logger.warning("%s; %d files are planned again", err, len(lost_files))
        return lost_files


def _faults(files: Sequence[Rewritten], messages: Sequence[CommitMessage]) -> Mapping[int, ProofError]:
    """Check the messages. Raises ProofError if they change more than the indexes of the files."""
    for file in files:
        _check_untouched(file)
    for fault in check_commit([_claim(file) for file in files], messages).values():
        raise fault
    return {}


def _check_untouched(file: Rewritten) -> None:
    """Check that the data file and its description are unchanged."""
    before = file.need.file
    same = replace(file.after, extra_files=before.extra_files, embedded_index=before.embedded_index) == before
    others = [name for name in before.extra_files if not name.endswith(INDEX_SUFFIX)]
    if not same or [name for name in file.after.extra_files if not name.endswith(INDEX_SUFFIX)] != others:
        raise ProofError(before.file_name, "the commit would change more than the indexes of the file")


def _claim(file: Rewritten) -> CommitClaim:
    """Return the claim that the description of one file changes, in its bucket."""
    place = file.need.place
    bucket = Bucket(place.partition, place.bucket, place.total_buckets)
    return CommitClaim(
        name=file.need.file.file_name, removed=((bucket, file.need.file),), added=((bucket, file.after),)
    )


def _messages(files: Sequence[Rewritten]) -> list[CommitMessage]:
    """Return one message per bucket, which removes the file with its old description and adds it with the new
    one.
    """
    by_place: dict[Place, list[Rewritten]] = {}
    for file in files:
        by_place.setdefault(file.need.place, []).append(file)
    return [
        CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=place.total_buckets,
            compact_before=tuple(file.need.file for file in indexes),
            compact_after=tuple(file.after for file in indexes),
        )
        for place, indexes in by_place.items()
    ]
