"""This module lets a REST server commit the snapshots of one table, roll it back and change its branches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakecore.catalog.names import TableName
from lakecore.catalog.remote.lost_answer import UNKNOWN, LostAnswerError
from lakecore.catalog.remote.settled import settled
from lakecore.catalog.rest.answers import MissingResourceError
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.partition_statistics import partition_statistics
from lakecore.catalog.rest.resource_paths import ResourcePaths
from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    LakeError,
    UnavailableError,
)
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore

__all__ = ["RestVersions"]


@dataclass(frozen=True, slots=True)
class RestVersions:
    """This is the server, as the `VersionManagement` of one table."""

    client: RestClient
    paths: ResourcePaths
    name: TableName
    """It is the table; its branch is that of the call."""
    table_id: str
    """The server gave it to the table: a commit to another table that has the name by now is refused."""
    manifests: ManifestStore

    def latest(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot, None before the first. It costs a request.

        Raises NotFoundError when the table is gone, UnavailableError, CorruptDataError.
        """
        what = f"the newest snapshot of {self._at(branch)}"
        answer = self._get(what, self._path(branch, "snapshot"))
        if answer is None:
            return None
        loaded = answer.get("snapshot")  # it has counts, too
        return _snapshot(what, loaded.get("snapshot") if isinstance(loaded, Mapping) else None)

    def commit(self, branch: str, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Let the server publish `snapshot` after `base`, with the statistics of the partitions that it
        changes. It costs a request, and reads of the delta manifests.

        A server of Paimon 2.0 compares `base` with its own newest snapshot; one of 1.4 only looks whether the
        id is free.
        """
        snapshot = replace(snapshot, uuid=self.client.clock.fresh_id())
        body = {
            "tableId": self.table_id,
            "baseSnapshotUuid": None if base is None else base.uuid,
            "snapshot": json.loads(snapshot.to_json()),
            "statistics": partition_statistics(self.manifests, snapshot),
        }
        what = f"commit snapshot {snapshot.id} of {self._at(branch)}"

        def send() -> bool:
            try:
                answer = self.client.post(what, self._path(branch, "commit"), body)
            except (AlreadyExistsError, InvalidInputError) as err:
                is_there = self._look(branch, snapshot, str(err))
                if is_there is None:
                    raise
                return is_there
            success = answer.get("success")
            if not isinstance(success, bool):
                raise LostAnswerError(f"{what}: the answer does not say whether it succeeded; {UNKNOWN}")
            return success or self._look(branch, snapshot, f"{what}: the server refused it") is True

        try:
            return settled(send, lambda: self._is_there(branch, snapshot), self.client.clock)
        except LostAnswerError as err:
            raise CommitUncertainError(
                f"{err}; commit again with the same user and identifier, and delete nothing"
            ) from err

    def _look(self, branch: str, snapshot: Snapshot, refusal: str) -> bool | None:
        """Return what `_is_there` does after a refusal: a proxy may have sent the request twice, so that the
        server refused its own commit. Raises LostAnswerError when the server cannot be asked.
        """
        try:
            return self._is_there(branch, snapshot)
        except LakeError as err:
            raise LostAnswerError(f"{refusal}; {UNKNOWN}") from err

    def _is_there(self, branch: str, snapshot: Snapshot) -> bool | None:
        """Return whether the server has `snapshot` under its id; None if it has none of that id yet. Raises
        LostAnswerError when it has later ones only, which may be built on it.
        """
        latest = self.latest(branch)
        if latest is None or latest.id < snapshot.id:
            return None
        same_id = latest if latest.id == snapshot.id else self._of_id(branch, snapshot.id)
        if same_id is None:
            raise LostAnswerError(
                f"snapshot {snapshot.id} of {self._at(branch)} no longer exists, and the newest is "
                f"{latest.id}; {UNKNOWN}"
            )
        return _identity(same_id) == _identity(snapshot)

    def _of_id(self, branch: str, snapshot_id: int) -> Snapshot | None:
        what = f"snapshot {snapshot_id} of {self._at(branch)}"
        answer = self._get(what, self._path(branch, "snapshots", str(snapshot_id)))
        return None if answer is None else _snapshot(what, answer.get("snapshot"))

    def roll_back(self, branch: str, to: int | str, latest: int) -> None:
        """Let the server remove what came after a snapshot or a tag, if `latest` is still the newest."""
        instant: dict[str, Any] = {"type": "tag", "tagName": to}
        if isinstance(to, int):
            instant = {"type": "snapshot", "snapshotId": to}
        body = {"instant": instant, "fromSnapshot": latest}
        what = f"roll {self._at(branch)} back to {instant['type']} {to}"
        self.client.post(what, self._path(branch, "rollback"), body)

    def create_branch(self, name: str, tag: str | None) -> None:
        """Create a branch from a tag, or an empty one. Raises AlreadyExistsError, NotFoundError."""
        what = f"create branch {name!r} of {self.name}"
        self.client.post(what, self._path("main", "branches"), {"branch": name, "fromTag": tag})

    def delete_branch(self, name: str) -> None:
        """Delete a branch. Raises NotFoundError."""
        self.client.delete(f"delete branch {name!r} of {self.name}", self._path("main", "branches", name))

    def fast_forward(self, name: str) -> None:
        """Let main become what the branch is. Raises NotFoundError."""
        what = f"fast-forward {self.name} to branch {name!r}"
        self.client.post(what, self._path("main", "branches", name, "forward"), {})

    def _at(self, branch: str) -> str:
        return repr(str(replace(self.name, branch=branch)))

    def _path(self, branch: str, *parts: str) -> tuple[str, ...]:
        return self.paths.table(replace(self.name, branch=branch), *parts)

    def _get(self, what: str, path: tuple[str, ...]) -> Mapping[str, Any] | None:
        """Return the answer, None where the server says that there is no such snapshot."""
        try:
            return self.client.get(what, path)
        except MissingResourceError as err:
            if err.kind == "SNAPSHOT":
                return None
            raise


def _snapshot(what: str, raw: Any) -> Snapshot:
    if not isinstance(raw, dict):
        raise UnavailableError(f"{what}: the answer holds none; look into the log of the server")
    return Snapshot.from_json(json.dumps(raw), what)


def _identity(snapshot: Snapshot) -> tuple[object, ...]:
    """Return what no two commits have in common. A server of 1.4 does not keep the uuid."""
    lists = snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.time_millis
    return (snapshot.id, snapshot.commit_user, snapshot.commit_identifier, *lists)
