"""This package names all operators: `from lakecore_airflow.operators import CompactTableOperator`.

Its modules have the operators that work on one table, a module each area; those that work on many tables are
in `lakecore_airflow.lake`, and those of policies in `lakecore_airflow.policy`. A module is loaded when one of
its names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
    from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator
    from lakecore_airflow.lake.survey import SurveyOperator
    from lakecore_airflow.lake.tables import ListTablesOperator, NamedTablesOperator
    from lakecore_airflow.operators.analyze import AnalyzeOperator
    from lakecore_airflow.operators.branches import (
        CreateBranchOperator,
        DeleteBranchOperator,
        FastForwardOperator,
        MergeBranchOperator,
        RenameBranchOperator,
    )
    from lakecore_airflow.operators.compact import CompactTableOperator
    from lakecore_airflow.operators.consumers import (
        ClearConsumersOperator,
        ExpireConsumersOperator,
        ResetConsumerOperator,
    )
    from lakecore_airflow.operators.drops import (
        DropDatabaseOperator,
        DropTableOperator,
        RenameTableOperator,
        RestoreTableOperator,
    )
    from lakecore_airflow.operators.expire import ExpireChangelogsOperator, ExpireSnapshotsOperator
    from lakecore_airflow.operators.fsck import FsckOperator
    from lakecore_airflow.operators.holds import HoldTableOperator, ListHoldsOperator, ReleaseTableOperator
    from lakecore_airflow.operators.ledger import (
        ListRunsOperator,
        PurgeQuarantineOperator,
        UndoOperator,
        WhatIfOperator,
        WhyOperator,
    )
    from lakecore_airflow.operators.migration import (
        CopyOperator,
        MigrateDatabaseOperator,
        MigrateTableOperator,
    )
    from lakecore_airflow.operators.objects import (
        AlterFunctionOperator,
        AlterViewDialectOperator,
        CreateFunctionOperator,
        DropFunctionOperator,
    )
    from lakecore_airflow.operators.orphans import PurgeFilesOperator, RemoveOrphanFilesOperator
    from lakecore_airflow.operators.partitions import (
        DropPartitionOperator,
        ExpirePartitionsOperator,
        MarkPartitionDoneOperator,
    )
    from lakecore_airflow.operators.period_tags import (
        CreateBatchTagsOperator,
        TriggerTagAutomaticCreationOperator,
    )
    from lakecore_airflow.operators.privileges import (
        CreatePrivilegedUserOperator,
        DropPrivilegedUserOperator,
        GrantPrivilegeToUserOperator,
        InitFileBasedPrivilegeOperator,
        ListPrivilegesOperator,
        RevokePrivilegeFromUserOperator,
    )
    from lakecore_airflow.operators.query_service import QueryServiceOperator
    from lakecore_airflow.operators.repair import (
        ApplyRepairPlanOperator,
        CompactManifestOperator,
        RemoveUnexistingFilesOperator,
        RemoveUnexistingManifestsOperator,
        RepairCatalogOperator,
        RepairEarliestSnapshotOperator,
        RepairHintsOperator,
        RepairOperator,
    )
    from lakecore_airflow.operators.rescale import RescaleOperator
    from lakecore_airflow.operators.rewrite_file_index import RewriteFileIndexOperator
    from lakecore_airflow.operators.rollback import RollbackToAsLatestOperator, RollbackToOperator
    from lakecore_airflow.operators.tags import (
        CreateTagOperator,
        DeleteTagOperator,
        ExpireTagsOperator,
        RenameTagOperator,
        ReplaceTagOperator,
    )
    from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator

__all__ = [
    "AlterFunctionOperator",
    "AlterViewDialectOperator",
    "AnalyzeOperator",
    "ApplyRepairPlanOperator",
    "ClearConsumersOperator",
    "CompactDatabaseOperator",
    "CompactManifestOperator",
    "CompactTableOperator",
    "CopyOperator",
    "CreateBatchTagsOperator",
    "CreateBranchOperator",
    "CreateFunctionOperator",
    "CreatePrivilegedUserOperator",
    "CreateTagOperator",
    "DedicatedCompactionOperator",
    "DeleteBranchOperator",
    "DeleteTagOperator",
    "DropDatabaseOperator",
    "DropFunctionOperator",
    "DropPartitionOperator",
    "DropPrivilegedUserOperator",
    "DropTableOperator",
    "ExpireChangelogsOperator",
    "ExpireConsumersOperator",
    "ExpirePartitionsOperator",
    "ExpireSnapshotsOperator",
    "ExpireTagsOperator",
    "FastForwardOperator",
    "FsckOperator",
    "GrantPrivilegeToUserOperator",
    "HoldTableOperator",
    "InitFileBasedPrivilegeOperator",
    "ListHoldsOperator",
    "ListPrivilegesOperator",
    "ListRunsOperator",
    "ListTablesOperator",
    "MaintainTableOperator",
    "MarkPartitionDoneOperator",
    "MergeBranchOperator",
    "MigrateDatabaseOperator",
    "MigrateTableOperator",
    "NamedTablesOperator",
    "PlanMaintenanceOperator",
    "PurgeFilesOperator",
    "PurgeQuarantineOperator",
    "QueryServiceOperator",
    "ReleaseTableOperator",
    "RemoveOrphanFilesOperator",
    "RemoveUnexistingFilesOperator",
    "RemoveUnexistingManifestsOperator",
    "RenameBranchOperator",
    "RenameTableOperator",
    "RenameTagOperator",
    "RepairCatalogOperator",
    "RepairEarliestSnapshotOperator",
    "RepairHintsOperator",
    "RepairOperator",
    "ReplaceTagOperator",
    "RescaleOperator",
    "ResetConsumerOperator",
    "RestoreTableOperator",
    "RevokePrivilegeFromUserOperator",
    "RewriteFileIndexOperator",
    "RollbackToAsLatestOperator",
    "RollbackToOperator",
    "SurveyOperator",
    "TriggerTagAutomaticCreationOperator",
    "UndoOperator",
    "WhatIfOperator",
    "WhyOperator",
]

_HOMES = {
    "AlterFunctionOperator": "lakecore_airflow.operators.objects",
    "AlterViewDialectOperator": "lakecore_airflow.operators.objects",
    "AnalyzeOperator": "lakecore_airflow.operators.analyze",
    "ApplyRepairPlanOperator": "lakecore_airflow.operators.repair",
    "ClearConsumersOperator": "lakecore_airflow.operators.consumers",
    "CompactDatabaseOperator": "lakecore_airflow.lake.compact_database",
    "CompactManifestOperator": "lakecore_airflow.operators.repair",
    "CompactTableOperator": "lakecore_airflow.operators.compact",
    "CopyOperator": "lakecore_airflow.operators.migration",
    "CreateBatchTagsOperator": "lakecore_airflow.operators.period_tags",
    "CreateBranchOperator": "lakecore_airflow.operators.branches",
    "CreateFunctionOperator": "lakecore_airflow.operators.objects",
    "CreatePrivilegedUserOperator": "lakecore_airflow.operators.privileges",
    "CreateTagOperator": "lakecore_airflow.operators.tags",
    "DedicatedCompactionOperator": "lakecore_airflow.lake.dedicated_compaction",
    "DeleteBranchOperator": "lakecore_airflow.operators.branches",
    "DeleteTagOperator": "lakecore_airflow.operators.tags",
    "DropDatabaseOperator": "lakecore_airflow.operators.drops",
    "DropFunctionOperator": "lakecore_airflow.operators.objects",
    "DropPartitionOperator": "lakecore_airflow.operators.partitions",
    "DropPrivilegedUserOperator": "lakecore_airflow.operators.privileges",
    "DropTableOperator": "lakecore_airflow.operators.drops",
    "ExpireChangelogsOperator": "lakecore_airflow.operators.expire",
    "ExpireConsumersOperator": "lakecore_airflow.operators.consumers",
    "ExpirePartitionsOperator": "lakecore_airflow.operators.partitions",
    "ExpireSnapshotsOperator": "lakecore_airflow.operators.expire",
    "ExpireTagsOperator": "lakecore_airflow.operators.tags",
    "FastForwardOperator": "lakecore_airflow.operators.branches",
    "FsckOperator": "lakecore_airflow.operators.fsck",
    "GrantPrivilegeToUserOperator": "lakecore_airflow.operators.privileges",
    "HoldTableOperator": "lakecore_airflow.operators.holds",
    "InitFileBasedPrivilegeOperator": "lakecore_airflow.operators.privileges",
    "ListHoldsOperator": "lakecore_airflow.operators.holds",
    "ListPrivilegesOperator": "lakecore_airflow.operators.privileges",
    "ListRunsOperator": "lakecore_airflow.operators.ledger",
    "ListTablesOperator": "lakecore_airflow.lake.tables",
    "MaintainTableOperator": "lakecore_airflow.policy.maintain",
    "MarkPartitionDoneOperator": "lakecore_airflow.operators.partitions",
    "MergeBranchOperator": "lakecore_airflow.operators.branches",
    "MigrateDatabaseOperator": "lakecore_airflow.operators.migration",
    "MigrateTableOperator": "lakecore_airflow.operators.migration",
    "NamedTablesOperator": "lakecore_airflow.lake.tables",
    "PlanMaintenanceOperator": "lakecore_airflow.policy.maintain",
    "PurgeFilesOperator": "lakecore_airflow.operators.orphans",
    "PurgeQuarantineOperator": "lakecore_airflow.operators.ledger",
    "QueryServiceOperator": "lakecore_airflow.operators.query_service",
    "ReleaseTableOperator": "lakecore_airflow.operators.holds",
    "RemoveOrphanFilesOperator": "lakecore_airflow.operators.orphans",
    "RemoveUnexistingFilesOperator": "lakecore_airflow.operators.repair",
    "RemoveUnexistingManifestsOperator": "lakecore_airflow.operators.repair",
    "RenameBranchOperator": "lakecore_airflow.operators.branches",
    "RenameTableOperator": "lakecore_airflow.operators.drops",
    "RenameTagOperator": "lakecore_airflow.operators.tags",
    "RepairCatalogOperator": "lakecore_airflow.operators.repair",
    "RepairEarliestSnapshotOperator": "lakecore_airflow.operators.repair",
    "RepairHintsOperator": "lakecore_airflow.operators.repair",
    "RepairOperator": "lakecore_airflow.operators.repair",
    "ReplaceTagOperator": "lakecore_airflow.operators.tags",
    "RescaleOperator": "lakecore_airflow.operators.rescale",
    "ResetConsumerOperator": "lakecore_airflow.operators.consumers",
    "RestoreTableOperator": "lakecore_airflow.operators.drops",
    "RevokePrivilegeFromUserOperator": "lakecore_airflow.operators.privileges",
    "RewriteFileIndexOperator": "lakecore_airflow.operators.rewrite_file_index",
    "RollbackToAsLatestOperator": "lakecore_airflow.operators.rollback",
    "RollbackToOperator": "lakecore_airflow.operators.rollback",
    "SurveyOperator": "lakecore_airflow.lake.survey",
    "TriggerTagAutomaticCreationOperator": "lakecore_airflow.operators.period_tags",
    "UndoOperator": "lakecore_airflow.operators.ledger",
    "WhatIfOperator": "lakecore_airflow.operators.ledger",
    "WhyOperator": "lakecore_airflow.operators.ledger",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
