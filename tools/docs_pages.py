"""Hooks of `make docs` (mkdocs.yml): pages that do not lie in docs/, and the pages of the reference.

README.md, CONTRIBUTING.md, ROADMAP.md and CHANGELOG.md of the checkout become pages; their links into docs/ become
links between pages. The pages of the reference list what `__all__` of the packages names, so that a new name
appears without an edit.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "ROADMAP.md": "roadmap.md",
    "CHANGELOG.md": "changelog.md",
}
REFERENCE = {
    "reference/lakecore.md": (
        "Python",
        "What `import lakecore` offers. Everything that is not named on these pages is internal and may change.",
    ),
    "reference/errors.md": ("Errors", "Every error derives from `LakeError`."),
    "reference/jobs.md": (
        "Jobs",
        "What commands and operators run. A job is a frozen value with the parameters; `run` takes it with a "
        "catalog and returns a report. Both have a form in JSON.",
    ),
    "reference/operators.md": ("Operators", "Operators, sensors, triggers and the hook for Airflow 3.3."),
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages. mkdocs calls this once it has listed docs/."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        text = moved_links((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for page in REFERENCE:
        files.append(File.generated(config, page, content=reference_page(page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links of the guides to files of the checkout lead to the pages made of them."""
    if page.file.generated_by is not None:
        return markdown
    depth = page.file.src_uri.count("/")
    for source, target in PAGES.items():
        markdown = markdown.replace(f"]({'../' * (depth + 1)}{source}", f"]({'../' * depth}{target}")
    return markdown


def moved_links(text: str) -> str:
    """Markdown of the root of the checkout, with links as they are from the root of docs/."""
    for source, page in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return text.replace("](docs/", "](")


def reference_page(page: str) -> str:
    """Markdown of one page of the reference: a heading, a sentence, and the names to document."""
    title, text = REFERENCE[page]
    return "\n\n".join([f"# {title}", text, *_SECTIONS[page]()]) + "\n"


def exported(path: Path) -> list[str]:
    """Names in `__all__` of a module; empty without one. Nothing is imported."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def modules(package: str, pattern: str = "", root: Path = ROOT) -> list[tuple[str, list[str]]]:
    """Modules of a package, sorted, with those of their exported names that match `pattern`; no empty ones."""
    found = []
    for path in sorted((root / package).rglob("*.py")):
        names = [name for name in exported(path) if re.search(pattern, name)]
        dotted = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if names:
            found.append((dotted, names))
    return found


def airflow_modules(pattern: str) -> list[tuple[str, list[str]]]:
    """Modules of lakecore_airflow as `modules` gives them, but for the packages that name what their modules have."""
    found = modules("lakecore_airflow", pattern, ROOT / "operators")
    return [(name, names) for name, names in found if name not in _NAMING]


_NAMING = ("lakecore_airflow.operators", "lakecore_airflow.sensors")


def _entry(name: str, **options: Any) -> str:
    """The line by which mkdocstrings documents `name`; JSON is YAML."""
    if not options:
        return f"::: {name}"
    return f"::: {name}\n    options: {json.dumps(options)}"


MADE_BY_OTHERS = ("Scan", "Table")
"""Classes whose constructors take internal values; nobody but lakecore calls them, so they are not shown."""


def _lakecore() -> list[str]:
    names = [name for name in exported(ROOT / "lakecore/__init__.py") if not name.endswith("Error")]
    without_init: dict[str, Any] = {"merge_init_into_class": False}
    return [
        _entry(f"lakecore.{name}", **(without_init if name in MADE_BY_OTHERS else {}))
        for name in sorted(names, key=str.lower)
    ]


def _errors() -> list[str]:
    names = exported(ROOT / "lakecore/errors.py")
    return [_entry("lakecore.errors", members=[]), *(_entry(f"lakecore.errors.{name}") for name in names)]


def _jobs() -> list[str]:
    """Modules that have a function `run`, with the classes they export."""
    sections = []
    for module, names in modules("lakecore/jobs"):
        if "run" not in names or module == "lakecore.jobs.runner":
            continue
        sections += [f"## {module}", *(_entry(f"{module}.{name}") for name in names)]
    return sections


def _operators() -> list[str]:
    """Most constructors are made at run time (`lakecore_airflow.tasks.chore`), which a look at the source cannot see: the
    parameters are those of the docstrings, and tests/operators compares both.
    """
    sections = []
    for module, names in airflow_modules(r"(Operator|Sensor|Trigger|Hook)$|^watched_asset$"):
        entries = (_entry(f"{module}.{name}", docstring_options={"warnings": False}) for name in names)
        sections += [f"## {module}", *entries]
    return sections


_SECTIONS = {
    "reference/lakecore.md": _lakecore,
    "reference/errors.md": _errors,
    "reference/jobs.md": _jobs,
    "reference/operators.md": _operators,
}
