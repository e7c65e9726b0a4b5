"""The pages of a real Airflow in a real browser: pictures, what a phone shows, what axe-core finds, and seconds for
10,000 tables.

    .venv/bin/python -m tests.bench.pages [--pictures FOLDER] [--figures DIRECTORY]

It needs the package `chromium` of Debian and npm, and takes some six minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tarfile
import tempfile
import time
import urllib.parse
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.jobs.survey import DayPoint, State, Survey, TableRecord
from lakecore.maintain.survey.activity import LastAttempt
from lakecore.maintain.survey.record import Deduction, Figures
from lakecore.maintain.survey.store import SurveyStore
from tests.bench.accessibility import audit
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.chromium import Chromium
from tests.support.golden import golden_table
from tools.airflow_api import ENDED, AirflowApi
from tools.airflow_server import AirflowServer

_ROOT = Path(__file__).resolve().parents[2]
_DAY_MS = 86_400_000
_TABLES = 10_000
_GOLDEN = (
    "a_append_bucket_auto",
    "a_append_unaware",
    "a_life_empty",
    "a_old082_append",
    "a_old090_pk",
    "a_pk_dedup_b3_part",
    "a_pk_dedup_l0",
    "a_pk_overwrite",
    "a_pk_postpone",
    "a_pk_runs",
)
_SMALL = 14
"""The tables of the demo, and these of Java Paimon."""
_FORGOTTEN_S = 17.0
"""After so long the pages read a survey again."""
_DAGS = ("lakecore_survey", "lakecore_adhoc", "lakecore_nightly")
_POLICY = [
    {"tables": ["*"], "chores": {"compact": {}, "expire-snapshots": {}, "remove-orphan-files": {}}},
    {"tables": ["shop.events"], "chores": {"expire-snapshots": {"retain-max": 50}}},
]
_PREFIX = "/airflow"
"""The path under which the API server stands, as behind a proxy."""
_WIDTHS = {"light": 1280, "dark": 1280, "phone": 390}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, default=_ROOT / ".cache" / "pages")
    parser.add_argument("--figures", type=Path, default=FIGURES)
    options = parser.parse_args()
    options.pictures.mkdir(parents=True, exist_ok=True)
    measured = conditions()
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as server:
        for dag_id in _DAGS:
            server.api.wait(dag_id, partial(server.api.has_dag, dag_id), 300)
        before = api_server_bytes(server)
        paths = {name: f"/lakecore/{path}" for name, path in pages(server.api).items()}
        with Chromium() as browser:
            browser.cookie(server.url, "_token", server.api._token)
            times = seconds(browser, server.url)
            after = api_server_bytes(server)
            checked = look(browser, server.url, paths, options.pictures)
            figures = {
                "tables": _TABLES,
                "tables_of_the_small_lake": _SMALL,
                "pages": len(checked),
                "too_wide": sorted(name for name, one in checked.items() if one.wide),
                "tables_that_are_cut": sorted(name for name, one in checked.items() if one.cut),
                "violations": {name: one.violations for name, one in checked.items() if one.violations},
                "links_that_lead_elsewhere": sorted(
                    {link for one in checked.values() for link in one.elsewhere}
                ),
                "seconds": times,
                "api_server_bytes": {
                    "before_the_first_page": before,
                    "after_that_of_10000_tables": after,
                    "at_the_end": api_server_bytes(server),
                },
            }
    print(json.dumps(figures, indent=2))
    write_figures("pages", measured, figures, options.figures)


def serve(home: Path) -> AirflowServer:
    """An Airflow with the demo's lake, and a lake of which there is only a survey of 10,000 tables."""
    with tarfile.open(_ROOT / "demo" / "lake.tar.xz") as archive:
        archive.extractall(home, filter="data")
    for name in _GOLDEN:
        golden_table(f"g1.{name}").copy_to(home / "lake")
    catalog = load_catalog(str(home / "big"), create_warehouse=True)
    store = SurveyStore(catalog.file_io, catalog.warehouse)
    store.add(large_survey(SystemClock().now_ms()))
    (home / "lakecore.toml").write_text('[airflow]\nconnections = ["lake_default", "big"]\n')
    prices = {"price_core_hour": "0.08", "price_gb_month": "0.02", "currency": "EUR"}
    lakes = {"LAKE_DEFAULT": home / "lake", "BIG": home / "big"}
    connections = {
        f"AIRFLOW_CONN_{name}": json.dumps({"conn_type": "lakecore", "host": str(path), "extra": prices})
        for name, path in lakes.items()
    }
    more = {
        "AIRFLOW_VAR_LAKECORE_POLICY": json.dumps(_POLICY),
        "LAKECORE_CONFIG": str(home / "lakecore.toml"),
    }
    server = AirflowServer(home / "airflow", connections | more)
    server.api.url += _PREFIX
    server.env["AIRFLOW__API__BASE_URL"] = server.url
    server.env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"{server.url}/execution/"
    return server


def api_server_bytes(server: AirflowServer) -> int:
    """The memory of the processes of the API server, with its share of what several processes have in common."""
    total = 0
    for pid in server.processes():
        with suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if "api_server" in title or "api-server" in title:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def large_survey(now_ms: int) -> Survey:
    chance = random.Random(1)
    return Survey(
        started_ms=now_ms, tables=tuple(record(number, now_ms, chance) for number in range(_TABLES))
    )


def record(number: int, now_ms: int, chance: random.Random) -> TableRecord:
    score = chance.randint(0, 100)
    days = (
        DayPoint(
            now_ms - day * _DAY_MS, chance.randint(0, 100), chance.randint(9, 99), 10**8, chance.randint(1, 9)
        )
        for day in range(13, -1, -1)
    )
    return TableRecord(
        table=f"db{number % 40:02}.table_{number:05}",
        state=State.OK if score > 80 else State.DUE if score > 50 else State.SICK,
        surveyed_ms=now_ms,
        score=score,
        days=tuple(days),
        expected_seconds=float(chance.randint(1, 60)) if score <= 80 else None,
        figures=Figures(
            files=chance.randint(9, 2000),
            bytes=chance.randint(10**6, 10**11),
            sorted_runs=chance.randint(1, 9),
            history_bytes=chance.randint(10**6, 10**12),
            snapshot_ms=now_ms - chance.randint(0, 9 * _DAY_MS),
            snapshot_key=f"manifest-list-{chance.getrandbits(128):032x}-0",
        ),
        attempts=(
            LastAttempt("remove-orphan-files", "done", now_ms - chance.randint(0, _DAY_MS)),
            LastAttempt("compact", "nothing to do", now_ms - chance.randint(_DAY_MS, 2 * _DAY_MS)),
        ),
        rhythm=tuple(round(chance.random() * number / _TABLES, 3) for _ in range(24)),
        deductions=(Deduction("sorted-runs", 100 - score, "a bucket has 9 sorted runs"),)
        if score < 100
        else (),
    )


def pages(api: AirflowApi) -> dict[str, str]:
    """The pages below `/lakecore/`, after actions and a run that they show."""
    api.unpause("lakecore_survey")
    api.unpause("lakecore_adhoc")
    end_of(api, "lakecore_survey", api.trigger("lakecore_survey", {}))
    forms = {
        "compact": {"action": "compact", "table": "shop.orders", "strategy": "full"},
        "maintain": {"action": "maintain", "table": "shop.events"},
        "hold": {"action": "hold", "table": "shop.customers", "reason": "its writer is being repaired"},
    }
    actions = {name: act(api, form) for name, form in forms.items()}
    api.unpause("lakecore_nightly")
    run_id = api.trigger("lakecore_nightly", {"engine": "local", "until": ""})
    end_of(api, "lakecore_nightly", run_id)
    end_of(api, "lakecore_survey", api.trigger("lakecore_survey", {}))
    first = min(api.runs("lakecore_nightly"), key=lambda run: str(run["start_date"]))["dag_run_id"]
    return {
        "lake": "",
        "table": "table?name=shop.orders",
        "what-if": "what-if?name=shop.orders&most=3&least=1&trigger=2",
        "what-if-partitions": "what-if?name=shop.events&partitions=8+d&every=1+d",
        "history": "history",
        "window": "window",
        "window-of-10000": "window?conn=big",
        "quarantine": "quarantine",
        "lake-of-10000": "?conn=big",
        "lake-of-10000-filtered": "?conn=big&q=table_000&state=sick",
        "history-of-10000": "history?conn=big",
        "quarantine-of-10000": "quarantine?conn=big",
        "report": f"runs/lakecore_nightly/{urllib.parse.quote(first, safe='')}",
        **actions,
    }


def act(api: AirflowApi, form: Mapping[str, str]) -> str:
    """Press a button of a table's page, and wait for what it started; the address of its page."""
    text = api.page(f"/lakecore/table?name={form['table']}")[1]
    token = re.search(r'name="token" value="([^"]+)"', text)
    status, address = api.send_form("/lakecore/actions", {"token": token[1] if token else "", **form})
    if status != 303:
        raise RuntimeError(f"{form['action']}: {status} {address}")
    end_of(api, "lakecore_adhoc", urllib.parse.unquote(address.split("/")[1].split("?")[0]))
    return address


def end_of(api: AirflowApi, dag_id: str, run_id: str) -> None:
    state = api.wait(f"the end of {dag_id}", lambda: ended(api, dag_id, run_id), 300)
    if state != "success":
        raise RuntimeError(f"{dag_id} {run_id}: {state}")


def ended(api: AirflowApi, dag_id: str, run_id: str) -> str | None:
    state = api.run_state(dag_id, run_id)
    return state if state in ENDED else None


@dataclass(frozen=True)
class Checked:
    """What is wrong with a page in one window."""

    wide: bool
    """It is wider than the window, or has no title."""
    cut: bool
    """A table is wider than its frame, in a window that is not a phone's."""
    violations: list[dict[str, Any]]
    """What axe-core finds."""
    elsewhere: list[str]
    """Links and forms that leave the pages, and so the path under which the API server stands."""


def look(browser: Chromium, url: str, paths: Mapping[str, str], folder: Path) -> dict[str, Checked]:
    """Take pictures of each page, light, dark and as on a phone, and check it."""
    for path in paths.values():  # an older answer is shown at once, and the next page has the new one
        browser.open(url + path)
    time.sleep(_FORGOTTEN_S)
    for path in paths.values():
        browser.open(url + path)
    time.sleep(3)
    checked = {}
    for name, path in paths.items():
        for kind, width in _WIDTHS.items():
            browser.look(width=width, dark=kind == "dark")
            browser.open(url + path)
            browser.picture(folder / f"{name}-{kind}.png")
            wide = browser.run("document.documentElement.scrollWidth > innerWidth || !document.title")
            links = browser.run(
                "[...document.links].map(a => a.href).concat([...document.forms].map("
                "f => new URL(f.getAttribute('action') || '', location).href))"
            )
            elsewhere = [link for link in links if not link.startswith(f"{url}/lakecore/")]
            cut = kind != "phone" and browser.run(
                "[...document.querySelectorAll('.wide')].some(one => one.scrollWidth > one.clientWidth)"
            )
            checked[f"{name}-{kind}"] = Checked(bool(wide), bool(cut), audit(browser), elsewhere)
    return checked


def seconds(browser: Chromium, url: str) -> dict[str, Any]:
    """Seconds until the first byte and until the page is complete, for the lake of 10,000 tables: while its survey
    is remembered (the median of five), and when it is read again.
    """
    address = f"{url}/lakecore/?conn=big"
    until = time.monotonic() + 60
    while not (shown := load(browser, address))["tables"] and time.monotonic() < until:
        time.sleep(3)
    if not shown["tables"]:
        raise RuntimeError("the page has no tables")
    times = [load(browser, address) for _ in range(5)]
    time.sleep(_FORGOTTEN_S)
    names = ("first_byte", "complete")
    return {
        "remembered": {name: round(median(one[name] for one in times), 3) for name in names},
        "read_again": load(browser, address),
    }


def load(browser: Chromium, url: str) -> dict[str, Any]:
    """Load the page of a lake: its seconds, the tables that it shows, and whether it complains of storage."""
    browser.open(url)
    time.sleep(0.2)
    found = json.loads(browser.run("JSON.stringify(performance.getEntriesByType('navigation')[0])"))
    return {
        "first_byte": round(found["responseStart"] / 1000, 3),
        "complete": round(found["loadEventEnd"] / 1000, 3),
        "tables": browser.run("document.querySelectorAll('td.name').length"),
        "late": browser.run("document.querySelector('.problem') !== null"),
    }


if __name__ == "__main__":
    main()
