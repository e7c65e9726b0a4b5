"""The loop of commits: what it leaves out, what it tries again, and when files may be removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest, CommitResult
from lakecore.compact.engine.commit_loop import CommitGuard, commit_fitting
from lakecore.errors import CommitConflictError, CommitUncertainError, ProofError, UnavailableError
from lakecore.metadata.commit_message import CommitMessage

Answer = CommitResult | BaseException


def message(bucket: int) -> CommitMessage:
    return CommitMessage(partition=b"", bucket=bucket, total_buckets=8)


@dataclass
class Draft:
    """One try to commit buckets, which notes what becomes of it."""

    buckets: tuple[int, ...]
    wrong: frozenset[int]
    log: list[str]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> Sequence[CommitMessage]:
        return [message(bucket) for bucket in self.buckets]

    def faults(self) -> Mapping[int, ProofError]:
        return {n: ProofError(str(b), "is wrong") for n, b in enumerate(self.buckets) if b in self.wrong}

    def discard(self) -> None:
        self.log.append(f"discard {self.buckets}")

    def landed(self) -> None:
        self.log.append(f"landed {self.buckets}")


@dataclass
class Buckets:
    """Commits of buckets; those of `wrong` are not as they were proven."""

    wrong: frozenset[int] = frozenset()
    log: list[str] = field(default_factory=list)
    overwrites = False
    preconditions = None

    def draft(self, items: Sequence[int]) -> Draft:
        return Draft(tuple(items), self.wrong, self.log)

    def affected(self, items: Sequence[int], err: CommitConflictError) -> list[int]:
        named = {bucket for _, bucket, _ in err.files}
        return [bucket for bucket in items if bucket in named]


class Storage:
    """Gives its answers one after the other."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.tried: list[tuple[int, ...]] = []

    def commit(self, messages: Sequence[CommitMessage], request: CommitRequest) -> CommitResult:
        self.tried.append(tuple(one.bucket for one in messages))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def committed(storage: Storage, commits: Buckets, *buckets: int) -> Any:
    return commit_fitting(cast(Committer, storage), buckets, ("u", 1), commits)


def conflict(*buckets: int) -> CommitConflictError:
    return CommitConflictError("too late", tuple((b"", bucket, "f") for bucket in buckets))


PUBLISHED = CommitResult((7,), False, None, ())


def test_what_is_wrong_or_lost_is_left_out_and_the_rest_is_committed() -> None:
    storage, commits = Storage(conflict(2, 9), PUBLISHED), Buckets(frozenset({1}))
    landed = committed(storage, commits, 0, 1, 2, 3)
    assert storage.tried == [(0, 2, 3), (0, 3)]
    assert (landed.items, landed.lost, landed.snapshots) == ((0, 3), (2,), (7,))
    assert [(bucket, error.unit) for bucket, error in landed.refused] == [(1, "1")]
    assert commits.log == ["discard (0, 1, 2, 3)", "discard (0, 2, 3)", "landed (0, 3)"]


def test_nothing_is_committed_where_nothing_is_left() -> None:
    storage = Storage(conflict(0))
    landed = committed(storage, Buckets(frozenset({1})), 0, 1)
    assert (landed.items, landed.lost, landed.snapshots, storage.tried) == ((), (0,), (), [(0,)])


def test_a_conflict_that_concerns_no_item_is_raised() -> None:
    commits = Buckets()
    with pytest.raises(CommitConflictError):
        committed(Storage(conflict(9)), commits, 0)
    assert commits.log == ["discard (0,)"]


def test_files_of_a_duplicate_are_discarded() -> None:
    commits = Buckets()
    assert committed(Storage(CommitResult((3,), True, None, ())), commits, 0).duplicate
    assert commits.log == ["discard (0,)"]


@pytest.mark.parametrize(
    ("error", "log"),
    [
        (UnavailableError("down"), ["discard (0,)"]),
        (CommitUncertainError("unknown"), []),
        (KeyboardInterrupt(), []),
    ],
    ids=["failed", "uncertain", "interrupted"],
)
def test_files_are_discarded_only_where_no_snapshot_names_them(error: BaseException, log: list[str]) -> None:
    commits = Buckets()
    with pytest.raises(type(error)):
        committed(Storage(error), commits, 0)
    assert commits.log == log


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("act", "uncertain"),
    [
        (lambda: None, False),
        (raises(UnavailableError("down")), False),
        (raises(CommitUncertainError("unknown")), True),
        (raises(KeyboardInterrupt()), True),
    ],
    ids=["published", "failed", "uncertain", "interrupted"],
)
def test_a_run_removes_its_files_only_where_the_outcome_is_known(
    act: Callable[[], None], uncertain: bool
) -> None:
    guard = CommitGuard()
    try:
        with guard.committing():
            assert guard.uncertain
            act()
    except (UnavailableError, CommitUncertainError, KeyboardInterrupt):
        pass
    assert guard.uncertain is uncertain
