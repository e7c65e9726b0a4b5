"""Secrets are in no repr, error, log or ledger, and names cannot move the cursor of a terminal."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import pytest

import lakecore
from lakecore.catalog.config import CatalogConfig
from lakecore.cli.log_text import PrintableFormatter
from lakecore.cli.main import main
from lakecore.errors import (
    CorruptDataError,
    InvalidInputError,
    LakeError,
    mask_secrets,
    printable,
    without_secrets,
)
from lakecore.fs.resolve import file_io_for
from lakecore.jobs import expire_snapshots
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool
from tests.support.lake import put

SECRET = "hunter2"
KEYS = [
    "s3.secret-key", "s3.secret.key", "s3.access-key", "s3.session-token", "fs.s3a.access.key", "fs.oss.accessKeySecret", "password",
    "jdbc.password", "spark.hadoop.fs.s3a.secret.key", "azure.sas-key", "gs.private_key", "fs.azure.account.key.shop.dfs.core.windows.net", "fs.azure.sas.fixed.token", "x.credentials", "API_KEY", "passphrase",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_values_of_secret_keys_are_masked(key: str) -> None:
    raw = {"options": {key: SECRET, "bucket": "1"}, "many": [{key: SECRET}], "none": {key: None}}
    assert without_secrets(raw) == {
        "options": {key: "****", "bucket": "1"},
        "many": [{key: "****"}],
        "none": {key: None},
    }
    for text in (f"bad option {key}={SECRET}, x", f"{key}='{SECRET} {SECRET}' x", f'{key}="{SECRET}"'):
        assert SECRET not in mask_secrets(text)
    with pytest.raises(InvalidInputError) as caught:
        Option(key, parse_bool, False, "").read({key: SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["token.provider", "token-file", "data-token.enabled", "dlf.token-loader"])
def test_where_a_token_comes_from_is_no_secret(key: str) -> None:
    """A message that names the remedy says `token.provider=bear`, and a stored catalog has it."""
    text = f"write {key}=bear, and the token"
    assert mask_secrets(text) == text
    assert without_secrets({key: "bear"}) == {key: "bear"}
    assert SECRET not in mask_secrets(f"{key}-x={SECRET} {key}.token={SECRET} token={SECRET}")


def test_passwords_of_addresses_are_masked() -> None:
    for address in (
        f"s3://key:{SECRET}@bucket/x",
        f"jdbc:mysql://me:{SECRET}@host:3306/db",
        f"https://:{SECRET}@host",
    ):
        assert SECRET not in str(LakeError(f"cannot open {address}"))
        assert SECRET not in str(CorruptDataError(address, "is damaged"))
        assert SECRET not in str(without_secrets({"uri": address}))
    assert (
        mask_secrets("s3://bucket/a@b and dt=1@x and file:///a") == "s3://bucket/a@b and dt=1@x and file:///a"
    )


@pytest.mark.parametrize("word", ["y", "secret", "token-", "a.-_", "://:"], ids=str)
def test_long_words_are_masked_in_time_that_grows_with_their_length(word: str) -> None:
    """A damaged or hostile file can put a word of any length into a message; 10,000 letters took half a minute."""
    long = word * (400_000 // len(word))
    assert mask_secrets(long) == long
    assert mask_secrets(f"{long} {long}secret={SECRET}") == f"{long} {long}secret=****"


def test_options_are_in_no_repr() -> None:
    options = {"s3.access-key": SECRET, "s3.secret-key": SECRET, "s3.session-token": SECRET}
    storage = file_io_for("s3://b", options)
    schema = TableSchema(id=0, fields=(), highest_field_id=0, options={"fs.s3a.secret.key": SECRET})
    for one in (storage, storage.connection, CatalogConfig("s3://b", options), schema):  # type: ignore[attr-defined]
        assert SECRET not in repr(one)
    assert pickle.loads(pickle.dumps(storage)).connection == storage.connection  # type: ignore[attr-defined]


def test_the_ledger_has_no_secrets(tmp_path: Path) -> None:
    lake = lakecore.load_catalog(str(tmp_path))
    secret = {"fs.s3a.secret.key": SECRET}  # a run takes it, because it is an option of the table
    table = lake.create_table("d.t", {"columns": ["k INT"], "options": secret})
    put(table, [{"k": 1}], [{"k": 2}])
    options = {"snapshot.num-retained.max": "1", **secret}
    expire_snapshots.run(expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1, options=options), lake)
    ledger = [path for path in (tmp_path / ".lakecore").rglob("*") if path.is_file()]
    assert any(path.name == "run.json" for path in ledger)
    assert [path for path in ledger if SECRET.encode() in path.read_bytes()] == []
    (run,) = (tmp_path / ".lakecore" / "runs").rglob("run.json")
    assert json.loads(run.read_bytes())["parameters"]["options"]["fs.s3a.secret.key"] == "****"


def test_names_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "x\x1b[2J\r\n\x9b1m\u202eerror: y"
    assert str(LakeError(name)) == str(InvalidInputError(name)) == "x\\x1b[2J\\x0d\\x0a\\x9b1m\\u202eerror: y"
    assert printable("é ü 中 a\u0301") == "é ü 中 a\u0301"
    record = logging.LogRecord(
        "lakecore", logging.WARNING, "", 0, "%s s3.secret-key=%s", (name, SECRET), None
    )
    assert PrintableFormatter().format(record) == f"WARNING:lakecore:{printable(name)} s3.secret-key=****"
    assert main(["--warehouse", f"{tmp_path}/", "describe", f"d.{name}"]) == 1
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert shown.count("\n") == 1
