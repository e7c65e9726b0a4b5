"""`compact --order-strategy`, `rescale` and `analyze` from the command line."""

from __future__ import annotations

from tests.lakecore.cli.conftest import Cli


def test_rows_in_order(cli: Cli, parted: str) -> None:
    asked = ("compact", parted, "--engine", "local", "--order-strategy")
    (planned,) = cli(*asked, "order", "--order-by", "n", "--dry-run", "--json").json
    assert (len(planned["planned"]), planned["snapshot"]) == (2, None)
    done = cli(*asked, "order", "--order-by", "n", "--where", "p=a")
    assert (done.code, "in the order of order(n)" in done.out) == (0, True)
    assert cli("read", parted).rows == [{"p": "a", "n": 1}, {"p": "b", "n": 2}]
    wrong = cli(*asked, "zorder", "--order-by", "p")
    assert (wrong.code, "partition column" in wrong.out) == (1, True)


def test_buckets_and_statistics(cli: Cli, keyed: str) -> None:
    rows = cli("read", keyed).rows
    (planned,) = cli("rescale", keyed, "--bucket-num", "3", "--engine", "local", "--dry-run", "--json").json
    assert planned["names"] == ["the table: 1 -> 3 buckets"]
    done = cli("rescale", keyed, "--bucket-num", "3", "--engine", "local")
    assert (done.code, "--set bucket=3" in done.out) == (0, True)
    assert cli("write", keyed, "-", stdin='{"k": 2}').code == 1
    assert cli("alter", keyed, "--set", "bucket=3").code == 0
    assert cli("rescale", keyed, "--engine", "local", "--json").json[0]["nothing_to_do"]
    assert cli("read", keyed).rows == rows
    assert cli("analyze", keyed, "--columns", "k, v").code == 0
    (found,) = cli("read", f"{keyed}$statistics").rows
    assert found["mergedRecordCount"] == 1
    ledger = cli("runs", keyed, "--json").out
    assert "-rescale-" in ledger
    assert "-analyze-" in ledger
