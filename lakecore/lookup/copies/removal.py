"""This module decides which shared copies leave. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.lookup.copies.shared_file import SharedFile

__all__ = ["files_to_remove"]


def files_to_remove(
    files: Sequence[SharedFile], *, now_ms: int, retention_ms: int, most: int | None, spared: str | None
) -> list[SharedFile]:
    """Return the files that leave: incomplete ones (who makes one keeps it), copies that were not used for
    the retention, and the least recently used ones above `most` bytes. The copy at the path `spared` stays.

    A time that is as far in the future counts as unused, too: a clock was set back.
    """
    leaving = [file for file in files if not file.is_complete]
    staying: list[SharedFile] = []
    for file in sorted(files, key=lambda file: (file.used_ms, file.path)):
        if file.is_complete and file.path != spared:
            unused = abs(now_ms - file.used_ms) > retention_ms
            (leaving if unused else staying).append(file)
    if most is None:
        return leaving
    excess = sum(file.size for file in files) - sum(file.size for file in leaving if file.is_complete) - most
    for file in staying:
        if excess <= 0:
            break
        leaving.append(file)
        excess -= file.size
    return leaving
