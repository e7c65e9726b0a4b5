"""This package publishes changes of a table as snapshots: all of a change, or nothing.

1. Messages of writers become changes, and a change the fields of a snapshot (`plan`, pure).
2. One try reads the latest snapshot (`view`) and decides whether the change still fits it (`conflict`, pure:
   bucket counts, removed files, key ranges, row ids). One that does not fit raises CommitConflictError.
3. The manifests are complete on storage before the snapshot is (`manifest_draft`). `attempt` repeats the try
   when another writer was faster, as often as `retry` allows.
4. A snapshot appears by an atomic creation. Where Java's writers rename over it, it is read again after a
   settle time (`publication`), and a change that was replaced is committed again.
5. The same (user, identifier, kind) is committed once, also by a process that knows nothing of the first
   one (`duplicates`).
6. After an outcome that is not known nothing is deleted. The files of a try that is known to have failed
   are removed, unless a published snapshot names them (`lakecore.store.published`).
7. At the end the callbacks of other packages are called (`callbacks`).

A try costs the manifests of the partitions that it touches, not those of the table.
"""
