"""This module puts files under other names in the place of others: a file that a repair changes must not
keep its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from lakecore.maintain.repair.context import ActionResult, RepairContext
from lakecore.maintain.target import Target, discard_files
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.options import TableOptions
from lakecore.verify.fsck.references import bucket_directory

__all__ = ["copy_files", "replace_with_copies"]

Write = Callable[[str, DataFile, DataFile], DataFile]
"""It writes a file of a directory, and those beside it, under new names; gives its description."""

_COPY_BYTES = 8 << 20


def replace_with_copies(
    context: RepairContext, target: Target, entries: Iterable[ManifestEntry], write: Write
) -> ActionResult:
    """Commit a COMPACT with a copy in the place of each file, in its directory, which may be outside of the
    table. Raises CommitConflictError when others replaced one of the files meanwhile, and the errors of
    `write`; then nothing is left behind.
    """
    directory = bucket_directory(target.paths, target.schema)
    prefix = TableOptions.from_schema(target.schema).data_file_prefix
    messages: list[CommitMessage] = []
    paths: list[str] = []
    try:
        for entry in entries:
            bucket_dir = directory(entry.partition, entry.bucket)
            folder = target.paths.directory_of(bucket_dir, entry.file)
            copy = _rename(entry.file, f"{prefix}{target.clock.fresh_id()}-0")
            paths += [f"{folder}/{name}" for name in copy.all_names]
            messages.append(
                CommitMessage(
                    partition=entry.partition,
                    bucket=entry.bucket,
                    total_buckets=entry.total_buckets,
                    compact_before=(entry.file,),
                    compact_after=(write(folder, entry.file, copy),),
                )
            )
    except BaseException:
        discard_files(target, paths)
        raise
    return context.commit(target, messages, partial(discard_files, target, paths))


def copy_files(target: Target, directory: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy files. The cost is one read and write of the files, and 8 MB of memory. Nothing is left where it
    fails.
    """
    for source, name in pairs:
        output = target.file_io.open_output(f"{directory}/{name}")
        try:
            with target.file_io.open_input(f"{directory}/{source}") as stored:
                while data := stored.read(_COPY_BYTES):
                    output.write(data)
            output.close()
        except BaseException:
            output.abort()
            raise


def _rename(file: DataFile, stem: str) -> DataFile:
    """Return the file, and those beside it, under names that begin with `stem`."""
    old, dot, rest = file.file_name.partition(".")
    extras = tuple(f"{stem}{name.removeprefix(old)}" for name in file.extra_files)
    name, place = f"{stem}{dot}{rest}", file.external_path
    if place is not None:
        place = f"{place.rpartition('/')[0]}/{name}"
    return replace(file, file_name=name, extra_files=extras, external_path=place)
