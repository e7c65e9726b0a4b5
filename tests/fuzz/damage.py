"""The byte fuzzer: damages valid bytes and decodes them in a child process with a limit of memory and time.

`python -m tests.fuzz.damage [--seed N] [--cases N] [--targets a,b]` prints a line a target and every bad case.
A case is `target:sample:seed`; `--case` decodes one case in this process and shows what happens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

import pyarrow as pa

from lakecore.errors import CorruptDataError, UnsupportedError
from tests.fuzz.decoders import TARGETS, Sample, samples
from tests.fuzz.mutations import mutate

__all__ = ["Outcome", "damaged", "run_targets"]

MEMORY = 3 << 30
"""Bytes that decoding one small file may take beyond what the process has to begin with."""
SECONDS = 30


@dataclass
class Outcome:
    """What became of cases. `bad`: case -> what happened; `crashes`: ended the process. `reached`: targets."""

    cases: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    bad: dict[str, str] = field(default_factory=dict)
    crashes: dict[str, str] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)


def damaged(sample: Sample, seed: int) -> bytes:
    return mutate(sample.data, random.Random(f"{sample.name}/{seed}"))


def verdict(sample: Sample, data: bytes) -> str:
    """refused, same, other (no checksum tells), or a sentence that begins with BAD.

    memory: a damaged parquet page says that it has up to 2 GB, which pyarrow asks for before it looks at it.
    """
    try:
        found = sample.decode(data)
    except (CorruptDataError, UnsupportedError):
        return "refused"
    except pa.ArrowMemoryError:
        return "memory"
    except _Late:
        return f"BAD: no end after {SECONDS} s"
    except BaseException as err:  # noqa: BLE001 - the finding itself
        return f"BAD: {type(err).__name__}: {str(err)[:200]}"
    if data == sample.data:
        return "same"
    right = repr(found) == repr(sample.decode(sample.data))
    if sample.sealed and not right:
        return "BAD: another answer although a checksum covers it"
    return "same" if right else "other"


class _Late(BaseException):
    pass


def _late(*_: object) -> NoReturn:
    raise _Late


def run_targets(targets: str, seed: int, cases: int) -> Outcome:
    """Decode `cases` damaged samples of targets (a,b,…) in children; one that dies is followed by another."""
    outcome = Outcome()
    start = 0
    while start < cases:
        start = _child(targets, seed, (start, cases), outcome)
    return outcome


def _child(target: str, seed: int, span: tuple[int, int], outcome: Outcome) -> int:
    """Run one child; the number of the case after the last one it began."""
    command = [sys.executable, "-m", "tests.fuzz.damage", "--child", target, str(seed), *map(str, span)]
    limit = 60 + (SECONDS + 1) * 4 + (span[1] - span[0])
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    last, case = span[0] - 1, ""
    ended = False
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if "case" in event:
            last, case, ended = event["number"], event["case"], False
            continue
        ended = True
        outcome.cases += 1
        text = event["verdict"]
        outcome.verdicts[text.split(":")[0]] += 1
        outcome.reached.add(case.split(":")[0])
        if text.startswith("BAD"):
            outcome.bad[case] = text
    if done.returncode and not ended:
        outcome.cases += 1
        outcome.verdicts["crash"] += 1
        outcome.crashes[case or f"{target}: before the first case"] = (
            f"{_end(done.returncode)} {done.stderr[-300:]}"
        )
        if last < span[0]:
            raise RuntimeError(f"the child of {target} does not start: {done.stderr}")
    elif done.returncode:
        raise RuntimeError(f"the child of {target} failed: {done.stderr}")
    return last + 1


def _end(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def _serve(targets: str, seed: int, start: int, stop: int) -> None:
    """The child: tell each case before it is decoded, so that a crash is known by it."""
    chosen = targets.split(",")
    found = {target: samples(target) for target in chosen}
    for some in found.values():
        some[0].decode(some[0].data)
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _late)
    for number in range(start, stop):
        target, turn = chosen[number % len(chosen)], number // len(chosen)
        place = turn % len(found[target])
        sample = found[target][place]
        case = f"{target}:{place}:{seed * 1_000_000 + number}"
        print(json.dumps({"number": number, "case": case}), flush=True)
        signal.alarm(SECONDS)
        text = verdict(sample, damaged(sample, seed * 1_000_000 + number))
        signal.alarm(0)
        print(json.dumps({"verdict": text}), flush=True)
    os._exit(0)


def _show(case: str) -> None:
    target, place, seed = case.split(":")
    sample = samples(target)[int(place)]
    data = damaged(sample, int(seed))
    print(f"{sample.name}: {len(sample.data)} bytes, damaged {len(data)}")
    print(sample.decode(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--case")
    parser.add_argument("--child", nargs=4)
    wanted = parser.parse_args()
    if wanted.child:
        _serve(wanted.child[0], *map(int, wanted.child[1:]))
        return
    if wanted.case:
        _show(wanted.case)
        return
    failed = False
    for target in wanted.targets.split(","):
        outcome = run_targets(target, wanted.seed, wanted.cases)
        print(f"{target}: {outcome.cases} cases of seed {wanted.seed}: {dict(outcome.verdicts)}")
        for case, text in (outcome.bad | outcome.crashes).items():
            print(f"  {case}  {text}")
        failed |= bool(outcome.bad or outcome.crashes)
    sys.exit(failed)


if __name__ == "__main__":
    main()
