"""How long a publication is watched on which store."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakecore.errors import InvalidOptionError
from lakecore.store.settle_time import SETTLE_TIME, settle_ms
from lakecore.store.two_writers import other_writers


def test_the_option_decides_on_every_store() -> None:
    for path in ("/wh/db.db/t", "s3://b/wh/db.db/t", "memory://m/t"):
        assert settle_ms({SETTLE_TIME.key: "3 s"}, path) == 3000
        assert settle_ms({SETTLE_TIME.key: "0"}, path) == 0


def test_a_wrong_value_is_refused_by_name() -> None:
    with pytest.raises(InvalidOptionError, match=r"lakecore\.commit\.settle-time='soon'"):
        settle_ms({SETTLE_TIME.key: "soon"}, "/wh/t")


def test_the_defaults_of_the_stores() -> None:
    """In a process of its own: the tests' own fixture shortens the time on a local disk."""
    code = """
from lakecore.store.settle_time import settle_ms
print([settle_ms({}, path) for path in ("/wh/t", "s3://b/t", "memory://m/t")])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[200, 1000, 0]"


def test_describe_says_what_holds_beside_other_writers() -> None:
    local = other_writers({}, "/wh/t")
    assert (local.store, local.lakecore) == ("local disk", "no commit is lost")
    assert local.java.startswith("may replace a commit of lakecore; it is committed again")
    off = other_writers({SETTLE_TIME.key: "0"}, "s3://b/t")
    assert (off.store, off.settle_ms) == ("object store", 0)
    assert off.java == "may replace a commit of lakecore unnoticed: lakecore.commit.settle-time is 0"
    assert other_writers({SETTLE_TIME.key: "2 s"}, "s3://b/t").java.endswith("within 2000 ms")
    assert other_writers({}, "memory://m/t").java == "cannot open the table"
