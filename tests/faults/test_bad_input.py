"""Bad input at the command line: exit code 1, one line with the thing, the value and the remedy; nothing is written."""

from __future__ import annotations

import functools
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from tests.support.lake import append_table, key_table, put

FULL = ("--engine", "local", "--strategy", "full")
ROWS = "rows.jsonl"


@dataclass(frozen=True)
class Lake:
    """A warehouse on disk with `d.k` (three snapshots, tag `old` of the first) and `d.a`; commands run on it."""

    path: Path
    capture: pytest.CaptureFixture[str]

    @property
    def catalog(self) -> FilesystemCatalog:
        return load_catalog(str(self.path), **{"local.fsync": "false"})

    def run(self, *command: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error; the file of rows lies in the warehouse."""
        self.capture.readouterr()
        code = main(
            ["--warehouse", str(self.path), *(str(self.path / a) if a == ROWS else a for a in command)]
        )
        return (code, *self.capture.readouterr())

    def refuses(self, *command: str) -> str:
        """The line of an error that ends `command` and leaves every file of the tables as it was."""
        before = self.files()
        code, out, err = self.run(*command)
        lines = [line for line in (out + err).splitlines() if "error: " in line]
        assert (code, len(lines)) == (1, 1), out + err
        assert "Traceback" not in out + err
        assert "unexpected" not in out + err
        assert self.files() == before
        return lines[0]

    def files(self) -> dict[str, bytes]:
        """All but the leases, whose last one stays when it was given back, the holds of damaged tables, and the ledger, which
        has an attempt that was refused.
        """
        found = (path for path in self.path.rglob("*") if path.is_file())
        own = (".lakecore/leases", ".lakecore/holds", ".lakecore/ledger")
        return {str(path): path.read_bytes() for path in found if not any(part in str(path) for part in own)}

    def newest(self, part: str, name: str = "d.k") -> Path:
        """The newest file of a kind."""
        table = self.catalog.load_table(name)
        latest = table._stores.snapshots.load(3)
        [manifest] = table._stores.manifests.read_list(latest.delta_manifest_list)
        [file] = table._stores.manifests.read([manifest]).files()
        paths = table._stores.paths
        return Path(
            {
                "snapshot": paths.snapshot(3),
                "schema": paths.schema(0),
                "manifest list": paths.manifest(latest.delta_manifest_list),
                "manifest": paths.manifest(manifest.file_name),
                "data": f"{paths.bucket_dir('', 0, table.options)}/{file.file_name}",
            }[part]
        )


Lakes = Callable[..., Lake]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Warehouses with files and manifests of some format, each made once."""

    @functools.cache
    def made(kind: str, manifests: str) -> Path:
        path = tmp_path_factory.mktemp(f"{kind}-{manifests}")
        catalog = load_catalog(str(path), **{"local.fsync": "false"})
        columns, options = ("k INT", "v STRING"), {"file__format": kind, "manifest__format": manifests}
        for table in (key_table(catalog, columns, **options), append_table(catalog, columns, **options)):
            put(table, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 4)] for n in range(3)))
        keyed = path / "d.db" / "k"
        (keyed / "tag").mkdir()
        (keyed / "tag" / "tag-old").write_bytes((keyed / "snapshot" / "snapshot-1").read_bytes())
        (path / ROWS).write_text('{"k": 1, "v": "z"}\n')
        return path

    return made


@pytest.fixture
def lakes(
    templates: Callable[[str, str], Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lakes:
    """Makes the lake of a test, of the formats it asks for."""
    monkeypatch.delenv("LAKECORE_DEBUG", raising=False)

    def copy(kind: str = "parquet", manifests: str = "avro") -> Lake:
        path = tmp_path / "lake"
        shutil.copytree(templates(kind, manifests), path)
        return Lake(path, capfd)

    return copy


@pytest.fixture
def lake(lakes: Lakes) -> Lake:
    return lakes()


MISSING = [
    (("read", "d.none"), "table 'd.none' does not exist in", "tables of d: a, k"),
    (("describe", "none.t"), "table 'none.t' does not exist", "databases: d"),
    (("tables", "none"), "database 'none' does not exist", "databases: d"),
    (("compact", "d.none", *FULL), "table 'd.none' does not exist", "tables of d: a, k"),
    (("compact", "none.*", *FULL), "no table matches 'none.*'", ""),
    (("fsck", "d.none"), "table 'd.none' does not exist", "tables of d: a, k"),
    (("write", "d.none", ROWS), "table 'd.none' does not exist", "tables of d: a, k"),
    (("write", "d.k", "none.jsonl"), "none.jsonl does not exist", "check the path"),
    (("read", "d.k", "--snapshot", "99"), "snapshot 99 of", "the available snapshots are 1-3"),
    (("read", "d.k", "--snapshot", "0"), "snapshot 0 of", "does not exist; the available snapshots are 1-3"),
    (
        ("files", "d.k", "--snapshot", "-1"),
        "snapshot -1 of",
        "does not exist; the available snapshots are 1-3",
    ),
    (("read", "d.k", "--tag", "none"), "tag 'none' of", "available tags: old"),
    (("files", "d.k", "--tag", "none"), "tag 'none' of", "available tags: old"),
    (("read", "d.k", "--branch", "none"), "branch 'none' of", "available branches: main"),
    (("read", "d.k$branch_none"), "branch 'none' of", "available branches: main"),
    (("read", "d.k", "--timestamp", "1"), "at or before 1 ms", "the earliest is 1 at"),
    (("read", "d.k", "--columns", "none"), "column 'none'", "the table has the columns k, v"),
    (("read", "d.k", "--where", "none = 1"), "no column 'none'", "columns are k, v"),
    (("compact", "d.k", "--where", "none=1", *FULL), "partitions 'none=1'", "not partitioned"),
]


@pytest.mark.parametrize(("command", "thing", "remedy"), MISSING, ids=lambda part: str(part)[:40])
def test_what_does_not_exist(lake: Lake, command: tuple[str, ...], thing: str, remedy: str) -> None:
    line = lake.refuses(*command)
    assert thing in line
    assert remedy in line


CLIMBING = [
    ("read", "../x.t"),
    ("read", "d.../../etc"),
    ("read", "d./etc/passwd"),
    ("read", "..d.k"),
    ("read", "d..."),
    ("read", "d.k\\..\\k"),
    ("read", "d.k\0"),
    ("read", "d.k", "--tag", "../../snapshot/snapshot-1"),
    ("read", "d.k", "--branch", "../../../k"),
    ("read", "d.k$branch_../../k"),
    ("tables", ".."),
    ("tables", "../lake/d"),
    ("write", "d.../../../x", ROWS),
    ("compact", "d.../../x", *FULL),
    ("fsck", "d.../../x"),
    ("create", "../d.t", "--schema", '{"columns": ["k INT"]}'),
    ("create", "d.../../../t", "--schema", '{"columns": ["k INT"]}'),
    ("create", "d..t", "--schema", '{"columns": ["k INT"]}'),
]


@pytest.mark.parametrize("command", CLIMBING, ids=lambda command: repr(" ".join(command))[:40])
def test_names_that_climb_out_of_the_warehouse(lake: Lake, command: tuple[str, ...]) -> None:
    outside = around(lake)
    line = lake.refuses(*command)
    assert "must not" in line
    assert around(lake) == outside


def around(lake: Lake) -> list[Path]:
    """What lies beside and in the warehouse, but for the records of lakecore's own."""
    found = lake.path.parent.rglob("*")
    return sorted(path for path in found if not path.is_relative_to(lake.path / ".lakecore"))


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("{}/none", "does not exist; check the path or create the directory"),
        ("{}/rows.jsonl", "is a file; give the directory"),
        ("ftp://host/path", "use sftp://"),
        ("gopher://host/path", "use a local path, or one of s3://"),
        ("s3://", "write s3://bucket/path"),
        ("", "--warehouse is empty; give a directory"),
        ("./\0", "give a directory"),
    ],
)
def test_warehouses(lake: Lake, location: str, problem: str) -> None:
    lake.capture.readouterr()
    assert main(["--warehouse", location.format(lake.path), "tables"]) == 1
    [line] = lake.capture.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert problem in line


def write(option: str) -> tuple[str, ...]:
    return ("write", "d.k", ROWS, "--option", option)


def compact(option: str) -> tuple[str, ...]:
    return ("compact", "d.k", *FULL, "--option", option)


OPTIONS = [
    (write("file.format=lance"), "'lance'", "parquet, orc, avro"),
    (write("file.compression=zip"), "file.compression='zip'", "zstd"),
    (write("target-file-size=-1"), "target-file-size='-1'", "'8 mb'"),
    (write("write-buffer-size=much"), "write-buffer-size='much'", "'8 mb'"),
    (write("manifest.target-file-size=x"), "manifest.target-file-size='x'", "'8 mb'"),
    (write("manifest.format=csv"), "manifest.format='csv'", "avro, parquet, orc"),
    (write("commit.max-retries=often"), "commit.max-retries='often'", "whole number"),
    (write("commit.timeout=soon"), "commit.timeout='soon'", "'1 h'"),
    (write("merge-engine=sum"), "merge-engine='sum'", "cannot be changed for one run"),
    (write("write-only"), "'write-only'", "write key=value"),
    (compact("num-sorted-run.compaction-trigger=x"), "compaction-trigger='x'", "whole number"),
    (compact("num-levels=0"), "num-levels=0", "at least 2"),
    (compact("target-file-size=big"), "target-file-size='big'", "'8 mb'"),
    (compact("file.format=lance"), "'lance'", "parquet, orc, avro"),
    (compact("manifest.format=csv"), "manifest.format='csv'", "avro, parquet, orc"),
    (("compact", "d.k", "--engine", "local", "--strategy", "sideways"), "sideways", "'universal', 'full'"),
    (("compact", "d.k", "--engine", "local", "--until", "soon"), "'soon'", "HH:MM"),
    (
        ("create", "d.t", "--schema", '{"columns": ["k INT"], "options": {"bucket": "many"}}'),
        "bucket='many'",
        "number",
    ),
    (("create", "d.t", "--schema", '{"columns": ["k FOO"]}'), "'FOO'", "not a data type"),
    (("create", "d.t", "--schema", "{"), "schema {", "not JSON"),
]


@pytest.mark.parametrize(("command", "thing", "remedy"), OPTIONS, ids=lambda part: str(part)[-40:])
def test_values_of_options(lake: Lake, command: tuple[str, ...], thing: str, remedy: str) -> None:
    line = lake.refuses(*command)
    assert thing in line
    assert remedy in line


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def nothing(data: bytes) -> bytes:
    return b""


def garbage(data: bytes) -> bytes:
    return b"garbage" * 50


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


damages = pytest.mark.parametrize("damage", [truncate, nothing, garbage, flip], ids=lambda f: f.__name__)
DAMAGED = (
    "restore it from a copy, or go back to a snapshot or tag that does not need it; fsck lists all damage"
)


@damages
@pytest.mark.parametrize(
    ("part", "manifests"),
    [
        ("snapshot", "avro"),
        ("schema", "avro"),
        ("manifest list", "avro"),
        ("manifest", "avro"),
        *(
            pytest.param(part, kind, marks=pytest.mark.slow)
            for part in ("manifest list", "manifest")
            for kind in ("orc", "parquet")
        ),
    ],
)
def test_damaged_metadata(lakes: Lakes, part: str, manifests: str, damage: Callable[[bytes], bytes]) -> None:
    lake = lakes(manifests=manifests)
    path = lake.newest(part)
    path.write_bytes(damage(path.read_bytes()))
    for command in (("read", "d.k"), ("files", "d.k"), ("compact", "d.k", *FULL), ("write", "d.k", ROWS)):
        line = lake.refuses(*command)
        assert f"{path}: " in line
        assert DAMAGED in line
        assert len(line) < len(f"{path}{DAMAGED}") + 300
    code, out, _ = lake.run("fsck", "d.k")
    assert code == 2
    assert str(path) in out
    assert lake.run("fsck", "d.a")[0] == 0
    if part != "schema":
        code, out, _ = lake.run("read", "d.k", "--snapshot", "2")
        assert (code, len(out.splitlines())) == (0, 5)
        assert lake.run("read", "d.k", "--tag", "old")[0] == 0


def flip_value(data: bytes) -> bytes:
    """A bit of a value in the last column, which every read decodes: page checksums tell."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    chunk = metadata.row_group(0).column(metadata.num_columns - 1)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    last = start + chunk.total_compressed_size - 1
    return data[:last] + bytes([data[last] ^ 1]) + data[last + 1 :]


DATA_DAMAGES = [
    *(("parquet", damage) for damage in (truncate, nothing, garbage)),
    *(
        pytest.param(kind, damage, marks=pytest.mark.slow)
        for kind in ("orc", "avro")
        for damage in (truncate, nothing, garbage)
    ),
    ("parquet", flip_value),  # orc and avro files have no checksums: a changed byte is found by chance
]


@pytest.mark.parametrize(("kind", "damage"), DATA_DAMAGES)
@pytest.mark.parametrize("name", ["d.k", "d.a"])
def test_damaged_data(lakes: Lakes, name: str, kind: str, damage: Callable[[bytes], bytes]) -> None:
    lake = lakes(kind)
    path = lake.newest("data", name)
    path.write_bytes(damage(path.read_bytes()))
    for command in (("read", name), ("compact", name, *FULL)):
        line = lake.refuses(*command)
        assert f"{path}: " in line
        assert DAMAGED in line
    assert lake.run("fsck", name, "--deep")[0] == 2
    code, out, _ = lake.run("read", name, "--snapshot", "2")
    assert (code, len(out.splitlines())) == (0, 5 if name == "d.k" else 8)


@pytest.mark.parametrize("part", ["manifest list", "manifest", "data"])
def test_files_that_are_gone(lake: Lake, part: str) -> None:
    path = lake.newest(part)
    path.unlink()
    for command in (("read", "d.k"), ("compact", "d.k", *FULL)):
        line = lake.refuses(*command)
        assert str(path) in line
        assert "fsck" in line
    if part != "data":
        assert "snapshot-3: needs a file that does not exist" in lake.refuses("write", "d.k", ROWS)
    assert lake.run("fsck", "d.k")[0] == 2
    assert lake.run("read", "d.k", "--snapshot", "2")[0] == 0


def other_version(path: Path, part: str, version: int) -> None:
    """Give the version field of a metadata file another value."""
    if part in ("snapshot", "schema"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
        return
    data = path.read_bytes()
    source = fastavro.reader(io.BytesIO(data))
    records = [{**record, "_VERSION": version} for record in source]
    target = io.BytesIO()
    fastavro.writer(target, source.writer_schema, records)
    path.write_bytes(target.getvalue())


@pytest.mark.parametrize(
    ("part", "version"),
    [
        ("snapshot", 99),
        ("schema", 99),
        *((part, v) for part in ("manifest list", "manifest") for v in (1, 3)),
    ],
)
def test_unknown_versions(lake: Lake, part: str, version: int) -> None:
    path = lake.newest(part)
    other_version(path, part, version)
    for command in (("read", "d.k"), ("compact", "d.k", *FULL), ("write", "d.k", ROWS)):
        line = lake.refuses(*command)
        assert f"{path}: the {part} has version {version}, but this release reads " in line
    assert lake.run("fsck", "d.k")[0] != 0
    if part != "schema":
        assert lake.run("read", "d.k", "--snapshot", "2")[0] == 0
