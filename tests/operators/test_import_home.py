"""The wheel has one import home, `lakecore_airflow`; the names of the package `operators` that it had before lead there.

Each test runs Python without the site packages of this environment's `.pth` files: they make the checkout importable, and
what counts is the wheel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import lakecore_airflow.operators
import lakecore_airflow.sensors
from tools.docs_pages import airflow_modules

ROOT = Path(__file__).resolve().parents[2]
OLD_NAMES = dict(
    line.split() for line in (Path(__file__).parent / "testdata" / "old_names.txt").read_text().splitlines()
)
"""New paths by old ones: whatever a module of `operators` exported in the last commit that had it."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the contents of a wheel that is built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("*.whl")
    with zipfile.ZipFile(archive) as found:
        found.extractall(folder / "site")
    return folder / "site"


_PROGRAM = """
import json, site, sys, warnings
warned = []
def note(message, category=UserWarning, stacklevel=1, **more):
    warned.append((category, str(message)))  # Airflow writes them to its log, where no filter sees them
warnings.warn = note
site.addsitedir({site!r})
{code}
old = [text.partition(" ")[0] for kind, text in warned if kind is DeprecationWarning and "lakecore_airflow" in text]
print("\\n" + json.dumps([answer, old]))
"""


def run(wheel: Path, code: str, *folders: Path) -> Any:
    """What the code leaves in `answer`, in an environment with the wheel, behind these folders; and the old names that warned."""
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    program = _PROGRAM.format(site=str(wheel), code=code)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__CORE__")},
        "PYTHONPATH": os.pathsep.join(map(str, [*folders, wheel, *libraries])),
    }
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=wheel.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_wheel_has_no_package_that_hides_one_of_a_user(wheel: Path) -> None:
    names = {path.name for path in wheel.iterdir() if path.suffix != ".dist-info"}
    assert names == {"lakecore", "lakecore_airflow", "lakecore_old_names.pth", "pyspark_lakecore"}


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "operators/lakecore_airflow"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name.removeprefix("operators/") for name in tracked.stdout.split()]
    assert len(names) > 60
    assert [name for name in names if not (wheel / name).is_file()] == []


def test_entry_points_lead_into_the_wheel(wheel: Path) -> None:
    code = """
from importlib.metadata import distributions
(found,) = [one for one in distributions(path=[{wheel!r}]) if one.name == "lakecore"]
points = [one for one in found.entry_points if one.group != "console_scripts"]
answer = [[one.load().__module__, one.group] for one in points]
info = [one for one in points if one.group == "apache_airflow_provider"][0].load()()
from airflow.sdk._shared.module_loading import import_string
paths = [*info["extra-links"], *(kind["hook-class-name"] for kind in info["connection-types"])]
answer += [[import_string(path).__module__, path] for path in paths]
"""
    answer, old = run(wheel, code.replace("{wheel!r}", repr(str(wheel))))
    assert sorted(answer) == [
        ["lakecore_airflow.get_provider_info", "apache_airflow_provider"],
        ["lakecore_airflow.hooks", "lakecore_airflow.hooks.LakeHook"],
        ["lakecore_airflow.links", "lakecore_airflow.links.ReportLink"],
        ["lakecore_airflow.links", "lakecore_airflow.links.TableLink"],
        ["lakecore_airflow.ui.plugin", "airflow.plugins"],
    ]
    assert old == []


def test_every_old_name_is_the_new_one_and_warns(wheel: Path) -> None:
    assert len(OLD_NAMES) > 100
    code = f"""
import importlib
def load(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
names = {OLD_NAMES!r}
answer = [old for old, new in names.items() if load(old) is not load(new)]
"""
    answer, old = run(wheel, code)
    assert answer == []
    assert set(old) == {name.rpartition(".")[0] for name in OLD_NAMES} | {"operators.ui"}
    assert len(old) == len(set(old)), "the first import warns, and no other"


def test_a_package_of_the_user_wins(wheel: Path, tmp_path: Path) -> None:
    """Its modules do, too, and a name that it lacks leads to lakecore: a trigger that waits can go on."""
    _write(tmp_path / "operators/__init__.py", "MINE = 'package'")
    _write(tmp_path / "operators/compact.py", "MINE = 'module'")
    code = """
import operators, operators.compact
from operators.triggers import WaitTrigger
answer = [operators.MINE, operators.compact.MINE, hasattr(operators.compact, "CompactTableOperator"), WaitTrigger.__module__]
"""
    answer, old = run(wheel, code, tmp_path)
    assert answer == ["package", "module", False, "lakecore_airflow.triggers"]
    assert old == ["operators.triggers"]


def test_a_folder_of_the_user_without_an_init_file_wins(wheel: Path, tmp_path: Path) -> None:
    _write(tmp_path / "operators/compact.py", "MINE = 'module'")
    answer, old = run(wheel, "import operators.compact\nanswer = operators.compact.MINE", tmp_path)
    assert (answer, old) == ("module", [])


def test_a_package_that_a_later_finder_finds_wins(wheel: Path) -> None:
    code = """
from importlib.machinery import ModuleSpec
class Loader:
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.MINE = "finder"
class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, Loader(), is_package=True) if name == "operators" else None
sys.meta_path.append(Finder())
import operators
answer = operators.MINE
"""
    assert run(wheel, code) == ["finder", []]


@pytest.mark.parametrize("name", ["operators.nothing", "operators.dags.nothing", "operators.compact.nothing"])
def test_names_that_never_were_are_not_found(wheel: Path, name: str) -> None:
    code = f"""
try:
    import {name}
except ModuleNotFoundError as error:
    answer = error.name
"""
    assert run(wheel, code)[0] == name


def test_a_module_keeps_its_own_name(wheel: Path) -> None:
    code = """
import operators.window as module
answer = [module.__name__, module.__spec__.name, module.__package__, sys.modules["lakecore_airflow.tasks.window"] is module]
"""
    answer, _ = run(wheel, code)
    assert answer == [
        "lakecore_airflow.tasks.window",
        "lakecore_airflow.tasks.window",
        "lakecore_airflow.tasks",
        True,
    ]


def test_a_dag_file_with_old_names_is_parsed(wheel: Path, tmp_path: Path) -> None:
    _write(
        tmp_path / "mine.py",
        """
from airflow.sdk import DAG
from operators.compact import CompactTableOperator
from operators.dags import lakecore_dags
from operators.snapshots import NewSnapshotSensor
with DAG("mine", schedule=None):
    NewSnapshotSensor(task_id="wait", table="d.t") >> CompactTableOperator(task_id="compact", table="d.t")
globals().update(lakecore_dags("nightly", settings={}))
""",
    )
    code = f"""
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({str(tmp_path)!r})
answer = [bag.import_errors, sorted(bag.dags), sorted(type(task).__module__ for task in bag.dags["mine"].tasks)]
"""
    errors, dags, modules = run(wheel, code)[0]
    assert errors == {}
    assert dags == ["lakecore_nightly", "mine"]
    assert modules == ["lakecore_airflow.operators.compact", "lakecore_airflow.sensors.snapshots"]


def test_what_airflow_stored_under_old_names_is_read(wheel: Path) -> None:
    """A serialized DAG, with the class path of a watcher, and triggers as the database has them."""
    code = """
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from lakecore_airflow.operators import CompactTableOperator, ExpireSnapshotsOperator
from lakecore_airflow.sensors import NewSnapshotSensor
from lakecore_airflow.watch import watched_asset
with DAG("mine", schedule=watched_asset("d.t")) as dag:
    NewSnapshotSensor(task_id="wait", table="d.t") >> CompactTableOperator(task_id="compact", table="d.t")
    ExpireSnapshotsOperator.partial(task_id="expire").expand(table=["d.t", "d.u"])
text = json.dumps(DagSerialization.to_dict(dag))
old = text
for new, before in {
    "lakecore_airflow.operators.compact": "operators.compact",
    "lakecore_airflow.operators.expire": "operators.expire",
    "lakecore_airflow.sensors.snapshots": "operators.snapshots",
    "lakecore_airflow.watch": "operators.watch",
}.items():
    assert new in old, new
    old = old.replace(new, before)
assert "lakecore_airflow" not in old
read = DagSerialization.from_dict(json.loads(old))
tasks = {task.task_id: [task.task_type, task._task_module] for task in read.tasks}
(watcher,) = read.timetable.asset_condition.watchers
load = TriggerRunner().get_trigger_by_classpath
paths = [watcher.trigger["classpath"], "operators.triggers.WaitTrigger"]
answer = [tasks, paths, [load(path).__module__ for path in paths]]
"""
    tasks, paths, modules = run(wheel, code)[0]
    assert tasks == {
        "wait": ["NewSnapshotSensor", "operators.snapshots"],
        "compact": ["CompactTableOperator", "operators.compact"],
        "expire": ["ExpireSnapshotsOperator", "operators.expire"],
    }
    assert paths == ["operators.watch.SnapshotWatch", "operators.triggers.WaitTrigger"]
    assert modules == ["lakecore_airflow.watch", "lakecore_airflow.triggers"]


@pytest.mark.parametrize(
    ("package", "kind"), [(lakecore_airflow.operators, "Operator"), (lakecore_airflow.sensors, "Sensor")]
)
def test_the_documented_packages_name_everything(package: Any, kind: str) -> None:
    bases = {"ChoreOperator", "EngineChoreOperator", "TableSensor"}
    names = {name for _, found in airflow_modules(f"{kind}$") for name in found} - bases
    assert sorted(names) == sorted(package.__all__)
    aliases = {"RepairOperator": "ApplyRepairPlanOperator"}
    assert all(getattr(package, name).__name__ == aliases.get(name, name) for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))


def test_a_process_that_starts_imports_nothing_of_it(wheel: Path) -> None:
    """Every Python process of the environment reads the file `.pth` of the wheel."""
    code = "answer = sorted(name for name in sys.modules if name.partition('.')[0] in ('airflow', 'lakecore', 'lakecore_airflow'))"
    assert run(wheel, code)[0] == []


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
