"""The commit identity of a task run: every try has the same user and identifier."""

from __future__ import annotations

import hashlib
from typing import Any

__all__ = ["commit_identity"]

_HASH_BITS = 43
_COMMITS_BITS = 10


def commit_identity(ti: Any, part: str = "") -> tuple[str, int]:
    """Return (commit user, commit identifier) of a task instance, or of a `part` of its work.

    The identifier leaves its lowest ten bits free, so that a long job can number its commits, and stays below
    2^53, so that no JSON reader rounds it. Both are functions of dag, task, run and map index only. A retry,
    or a worker that lost its answer, uses them again, and a repeated commit is recognised.
    """
    user = f"lakecore-{ti.dag_id}-{ti.task_id}"
    text = "\0".join((ti.dag_id, ti.task_id, ti.run_id, str(ti.map_index), *([part] if part else [])))
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return user, (digest >> (64 - _HASH_BITS)) << _COMMITS_BITS
