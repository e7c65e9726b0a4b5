"""Every field of a record that becomes a path or a part of one, and how a hostile value gets into it.

A field plants one value into the records of a warehouse on a disk, as somebody would who can write there. It answers
whether the warehouse has such a record at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from lakecore.metadata.manifest.index_file import DeletionRange
from tests.fuzz.hostile_plants import (
    Case,
    Field,
    plant_branch_name,
    plant_column_name,
    plant_consumer,
    plant_entry,
    plant_file_link,
    plant_hint,
    plant_history,
    plant_index_line,
    plant_json,
    plant_lease,
    plant_line,
    plant_link,
    plant_named,
    plant_new_link,
    plant_option,
    plant_partition,
    plant_plan,
    plant_removal,
    plant_run_field,
    plant_run_folder,
)

__all__ = ["FIELDS", "LINKS", "MARK", "Case", "Field", "values_for"]

MARK = "CANARY-7f3a"
"""In every row of the table outside: where it turns up, something was copied in."""


def values_for(case: Case, field: Field) -> dict[str, str]:
    """Hostile values by name."""
    wanted = sorted(case.outside.glob(field.kind)) or sorted(case.outside.glob("snapshot/snapshot-1"))
    outside = str(case.random.choice(wanted))
    base = str(case.path / field.base)
    relative = os.path.relpath(outside, base)
    other = case.warehouse / "d.db" / "other"
    sibling = str(next(iter(sorted(other.glob(field.kind))), other / "schema" / "schema-0"))
    return {
        "relative": relative,
        "absolute": outside,
        "other table": os.path.relpath(sibling, base),
        "other table, absolute": sibling,
        "inner steps": f"a/../{relative}",
        "backslashes": relative.replace("/", "\\"),
        "file://": f"file://{outside}",
        "file:": f"file:{outside}",
        "file:////": f"file:///{outside}",
        "steps in uri": f"file://{base}/{relative}",
        "s3://": "s3://other/secret",
        "s3a": "s3a://other/../secret",
        "NUL": f"{relative}\0x",
        "newline": f"x\n{relative}",
        "escape": "\x1b[2Jx",
        "percent": relative.replace("..", "%2e%2e"),
        "long": "x" * 5000,
        "long steps": "../" * 2000 + outside.lstrip("/"),
        "look-alike": relative.replace("..", "\u2024\u2024").replace("/", "\u2215"),
        "full width": relative.replace(".", "\uff0e").replace("/", "\uff0f"),
        "empty": "",
        "dot": ".",
        "dots": "..",
        "blank": " ",
        "tilde": "~/x",
        "home of lakecore": os.path.relpath(case.warehouse / ".lakecore" / "runs", base),
        "schema": os.path.relpath(case.path / "schema" / "schema-0", base),
    }


def _roots() -> Iterator[Field]:
    kinds = {
        "baseManifestList": "manifest/manifest-list-*",
        "deltaManifestList": "manifest/manifest-list-*",
        "changelogManifestList": "manifest/manifest-list-*",
        "indexManifest": "manifest/manifest-list-*",
        "statistics": "schema/schema-0",
    }
    for record, pattern in (
        ("snapshot", "snapshot/snapshot-*"),
        ("tag", "tag/tag-*"),
        ("changelog", "changelog/changelog-*"),
    ):
        for key, kind in kinds.items():
            base = "statistics" if key == "statistics" else "manifest"
            yield Field(f"{record}.{key}", plant_json(pattern, key), base, kind)


LINKS = tuple(
    Field(f"link.{place}", plant(place), copies=False)
    for plant, places in (
        (
            plant_link,
            (
                "d.db/{t}/snapshot", "d.db/{t}/schema", "d.db/{t}/manifest", "d.db/{t}/bucket-0", "d.db/{t}/p=*",
                "d.db/{t}/tag", "d.db/{t}/branch", "d.db/{t}/branch/branch-*", "d.db/{t}/branch/branch-*/snapshot",
                "d.db/{t}/changelog", "d.db/{t}/consumer", "d.db/{t}/index", "d.db/{t}", "d.db", ".lakecore",
                ".lakecore/runs", ".lakecore/runs/d.{t}", ".lakecore/runs/d.{t}/*", ".lakecore/runs/d.{t}/*/kept",
                ".lakecore/leases", ".lakecore/leases/d.{t}", ".lakecore/history",
            ),
        ),
        (
            plant_new_link,
            (
                "d.db/{t}/index", "d.db/{t}/statistics", "d.db/{t}/tag", "d.db/{t}/consumer", "d.db/{t}/changelog",
                "d.db/{t}/branch", "d.db/{t}/bucket-7", "d.db/{t}/branch/branch-new", "d.db/{t}/tag/tag-success-file",
                ".lakecore", ".lakecore/runs", ".lakecore/leases", ".lakecore/history",
            ),
        ),
        (plant_file_link, ("bucket-0/*.parquet", "snapshot/snapshot-*", "schema/schema-*", "tag/tag-*", "manifest/manifest-*")),
    )
    for place in places
)  # fmt: skip

FIELDS = (
    *_roots(),
    Field("schema.options.data-file.prefix", plant_option("data-file.prefix"), "bucket-0"),
    Field("schema.options.changelog-file.prefix", plant_option("changelog-file.prefix"), "bucket-0"),
    Field("schema.options.data-file.path-directory", plant_option("data-file.path-directory")),
    Field("schema.options.data-file.external-paths", plant_option("data-file.external-paths"), copies=False),
    Field(
        "schema.options.data-file.external-paths uri",
        plant_option("data-file.external-paths", "file://{}"),
        copies=False,
    ),
    Field(
        "schema.options.global-index.external-path", plant_option("global-index.external-path"), copies=False
    ),
    Field("schema.options.path", plant_option("path")),
    Field("schema.options.partition.default-name", plant_option("partition.default-name")),
    Field("schema.options.scan.fallback-branch", plant_option("scan.fallback-branch"), "branch"),
    Field("schema.options.file.format", plant_option("file.format"), "bucket-0"),
    Field("schema.fields.name", plant_column_name),
    Field("hint.LATEST", plant_hint("LATEST"), "snapshot"),
    Field("hint.EARLIEST", plant_hint("EARLIEST"), "snapshot"),
    Field("consumer.nextSnapshot", plant_consumer),
    Field("manifest-list._FILE_NAME", plant_line, "manifest", "manifest/manifest-[0-9a-f]*"),
    Field("manifest._FILE_NAME", plant_entry(lambda file, value: {"file_name": value}), "bucket-0"),
    Field("manifest._EXTRA_FILES", plant_entry(lambda file, value: {"extra_files": (value,)}), "bucket-0"),
    Field("manifest._EXTERNAL_PATH", plant_entry(lambda file, value: {"external_path": value}), "bucket-0"),
    Field("manifest._PARTITION", plant_partition),
    Field("index-manifest._FILE_NAME", plant_index_line(lambda value: {"file_name": value}), "index"),
    Field("index-manifest._EXTERNAL_PATH", plant_index_line(lambda value: {"external_path": value}), "index"),
    Field(
        "index-manifest._DELETIONS_VECTORS_RANGES.f0",
        plant_index_line(lambda value: {"deletions": (DeletionRange(value, 1, 2, 1),)}),
        "index",
    ),
    Field("name of a tag", plant_named("tag", "tag-", "tag/tag-*"), "tag"),
    Field("name of a consumer", plant_named("consumer", "consumer-", "tag/tag-*"), "consumer"),
    Field("name of a snapshot", plant_named("snapshot", "snapshot-", "snapshot/snapshot-*"), "snapshot"),
    Field("name of a data file", plant_named("bucket-0", "", "bucket-0/*"), "bucket-0"),
    Field("name of a manifest", plant_named("manifest", "", "manifest/*"), "manifest"),
    Field("name of a branch", plant_branch_name, "branch"),
    Field("run.id", plant_run_field("id")),
    Field("run.id, forged", plant_run_folder),
    Field("run.table", plant_run_field("table")),
    Field("run.files.path of a root", plant_removal(0, None)),
    Field("run.files.path", plant_removal(1, None)),
    Field("run.files.path of a root, forged", plant_removal(0, "planned")),
    Field("run.files.path, forged", plant_removal(1, "planned")),
    Field("run.files.path of a root, quarantined", plant_removal(0, "quarantined")),
    Field("run.files.path, quarantined", plant_removal(1, "quarantined")),
    Field("lease.owner", plant_lease),
    Field("history.table", plant_history),
    Field("repair-plan.step.branch", plant_plan(lambda step, value: step.update(branch=value)), "branch"),
    Field(
        "repair-plan.step.changes",
        plant_plan(lambda step, value: step.update(changes=[*step["changes"], value])),
    ),
    Field("repair-plan.step.action", plant_plan(lambda step, value: step.update(action=value))),
    Field(
        "repair-plan.step.parameters",
        plant_plan(lambda step, value: step.update(parameters={"unreadable": [value], "described": [value]})),
        "bucket-0",
    ),
    Field(
        "repair-plan.step.parameters.damaged",
        plant_plan(
            lambda step, value: step.update(action="rebuild-hash-index", parameters={"damaged": [value]})
        ),
        "index",
    ),
    Field(
        "repair-plan.step.parameters.unread",
        plant_plan(lambda step, value: step.update(action="rewrite-times", parameters={"unread": [value]})),
        "bucket-0",
    ),
)
