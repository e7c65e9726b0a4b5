"""This module has the files of a job as frozen values, and converts them to JSON and back. It is pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError, reason, secrets_of
from lakecore.maintain.lease.process import ProcessMark
from lakecore.metadata.json_record import json_object

__all__ = [
    "STALE_S",
    "VERSION",
    "JobFile",
    "RunRecord",
    "RunResult",
    "RunState",
    "Step",
    "StepResult",
    "StepState",
]

VERSION = 1
"""This is the version of the files that this release writes and reads."""
STALE_S = 60.0
"""This is the silence after which a run is lost, where it does not say another one."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,149}")
_SUBMISSION = re.compile(r"[A-Za-z0-9._-]{0,80}")


class StepState(Enum):
    """This enum says how a step ended."""

    DONE = "done"
    FAILED = "failed"
    LEFT = "left"
    """It was not begun: the run was cancelled, or its time was over."""


class RunState(Enum):
    """This enum says how a run ended."""

    DONE = "done"
    FAILED = "failed"
    """A step failed; the others were run."""
    CANCELLED = "cancelled"
    LOST = "lost"
    """Its runner showed no sign of life any more; what it committed stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """This is one job of `lakecore.jobs`: the name of its command, and its fields as JSON."""

    command: str
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """This is the request: steps that run one after another. A step that fails does not stop the next."""

    id: str
    steps: tuple[Step, ...]
    until_ms: int | None = None
    """No step begins after this time, in milliseconds since the epoch."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """It says in the ledger who began the job."""
    usage_key: str | None = None
    """It is the key of the sum that attempts add to, where the DAG run has a budget."""

    def encoded(self) -> bytes:
        """Return the bytes of the file. Raises InvalidInputError for an id that is no name of a directory, a
        job without steps, and a request with a secret.
        """
        check_id(self.id)
        if not self.steps:
            raise InvalidInputError(f"job {self.id} has no steps; give at least one")
        for step in self.steps:
            if any(True for _ in secrets_of(step.request)):
                raise InvalidInputError(
                    f"job {self.id}: the request of {step.command} has a secret among its options; a job "
                    "is a file in the warehouse, so give secrets to the machine that runs it"
                )
        steps = [{"command": one.command, "request": dict(one.request)} for one in self.steps]
        return _encode(
            id=self.id,
            steps=steps,
            until_ms=self.until_ms,
            origin=dict(self.origin),
            usage_key=self.usage_key,
        )

    @classmethod
    def decoded(cls, data: bytes, path: str) -> JobFile:
        """Parse the file. Raises CorruptDataError, UnsupportedError for a later version."""
        raw = _object(data, path)
        try:
            steps = tuple(
                Step(command=_text(one["command"]), request=_mapping(one["request"])) for one in raw["steps"]
            )
            until_ms, usage_key = raw.get("until_ms"), raw.get("usage_key")
            return cls(
                id=_text(raw["id"]),
                steps=steps,
                until_ms=None if until_ms is None else int(until_ms),
                origin=_mapping(raw.get("origin", {})),
                usage_key=None if usage_key is None else _text(usage_key),
            )
        except (KeyError, TypeError, ValueError) as err:
            raise CorruptDataError(path, f"this is no job: {reason(err)}") from err


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """This is the claim of a runner, with its latest sign of life."""

    runner: str
    """It is a fresh name."""
    submission: str = ""
    """It is the name of the submission that started the runner; a cancellation names it."""
    beat: int = 0
    """It grows with every sign of life."""
    stale_s: float = STALE_S
    """A run whose file has not changed for so long is lost."""
    process: ProcessMark | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return _encode(
            runner=self.runner,
            submission=self.submission,
            beat=self.beat,
            stale_s=self.stale_s,
            process=None if self.process is None else self.process.to_json(),
            progress=dict(self.progress),
        )

    @classmethod
    def decoded(cls, data: bytes, path: str) -> RunRecord:
        """Parse the file. Raises CorruptDataError, UnsupportedError for a later version."""
        raw = _object(data, path)
        try:
            return cls(
                runner=_text(raw["runner"]),
                submission=_text(raw["submission"]),
                beat=int(raw["beat"]),
                stale_s=min(3600.0, max(0.0, float(raw["stale_s"]))),
                process=ProcessMark.from_json(raw.get("process")),
                progress=_mapping(raw.get("progress", {})),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as err:
            raise CorruptDataError(path, f"this is no run of a job: {reason(err)}") from err


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """This is how one step ended: its report, or its error, or both if a part was done."""

    command: str
    state: StepState
    report: Mapping[str, Any] | None = None
    error: str | None = None
    error_class: str | None = None
    """It is the type of the error, one of `lakecore.errors` unless it is unexpected."""
    automatic_hold: bool = False
    """It tells whether the hold that refused the step was placed because damage was found."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {
            "command": self.command,
            "state": self.state.value,
            "report": None if self.report is None else dict(self.report),
            "error": self.error,
            "error_class": self.error_class,
            "automatic_hold": self.automatic_hold,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """This is how a run ended."""

    state: RunState
    runner: str
    """It is the runner whose run this is, or who saw that the run was lost."""
    steps: tuple[StepResult, ...] = ()
    seconds: float = 0.0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {
            "version": VERSION,
            "state": self.state.value,
            "runner": self.runner,
            "steps": [one.to_json() for one in self.steps],
            "seconds": self.seconds,
            "reason": self.reason,
        }

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return json.dumps(self.to_json(), ensure_ascii=False).encode()

    @classmethod
    def decoded(cls, data: bytes, path: str) -> RunResult:
        """Parse the file. Raises CorruptDataError, UnsupportedError for a later version."""
        raw = _object(data, path)
        try:
            return cls(
                state=RunState(raw["state"]),
                runner=_text(raw["runner"]),
                steps=tuple(_step_result(one) for one in raw["steps"]),
                seconds=float(raw["seconds"]),
                reason=_text(raw.get("reason", "")),
            )
        except (KeyError, TypeError, ValueError) as err:
            raise CorruptDataError(path, f"this is no result of a job: {reason(err)}") from err


def check_id(text: str) -> str:
    """Return the id of a job. Raises InvalidInputError for a text that is no name of a directory."""
    if not _ID.fullmatch(text) or ".." in text:
        raise InvalidInputError(f"{text!r} is no id of a job: use letters, digits, dots, dashes and _")
    return text


def check_submission(text: str) -> str:
    """Return the name of a submission. Raises InvalidInputError for a text that is no part of a file name."""
    if not _SUBMISSION.fullmatch(text):
        raise InvalidInputError(f"{text!r} is no name of a submission: use letters, digits, dots, - and _")
    return text


def _step_result(raw: Mapping[str, Any]) -> StepResult:
    report = raw.get("report")
    return StepResult(
        command=_text(raw["command"]),
        state=StepState(raw["state"]),
        report=None if report is None else _mapping(report),
        error=None if raw.get("error") is None else _text(raw["error"]),
        error_class=None if raw.get("error_class") is None else _text(raw["error_class"]),
        automatic_hold=raw.get("automatic_hold") is True,
    )


def _encode(**values: Any) -> bytes:
    return json.dumps({"version": VERSION, **values}, ensure_ascii=False).encode()


def _object(data: bytes, path: str) -> dict[str, Any]:
    try:
        raw = json_object(data)
    except ValueError as err:
        raise CorruptDataError(path, reason(err)) from err
    version = raw.get("version")
    if isinstance(version, int) and version > VERSION:
        raise UnsupportedError(
            f"{path} has version {version}, and this release reads {VERSION}: use one release of lakecore on "
            "all machines"
        )
    if version != VERSION:
        raise CorruptDataError(path, f"its version is {version!r}")
    return raw


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no object")
    return value
