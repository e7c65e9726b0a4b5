"""This module has operators that name tables, to map a maintenance task over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase, translate
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lakecore_airflow.airflow_names import conf
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.window import skip_in_blackout, window_end_ms

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.catalog import Catalog

__all__ = [
    "ListTablesOperator",
    "NamedTablesOperator",
    "check_map_length",
    "database_pattern",
    "is_chosen",
    "table_pattern",
    "tables_of",
]

_ANY = "*"
_ORDERS = ("name", "need")


class ListTablesOperator(BaseOperator):
    """Return the names of a lake's tables (`database.table`, sorted), to map a maintenance task over them. A
    directory that has snapshots, but lost its schema, is among them, so that its own task fails and says so.

    :param database: shell patterns on the name of the database, as a list or split by commas; by default all
        databases. A name without a pattern must exist. (templated)
    :param include: shell patterns on the name of the table, or on `database.table` where they have a dot; a
        table must match one of them. (templated)
    :param exclude: shell patterns; a table must match none of them. (templated)
    :param partition_key: only tables that are partitioned by this column, a text or a date. This reads the
        schema of every table that matches. (templated)
    :param order: `name`, or `need`: tables that earlier windows left come first, then the worst by the newest
        survey of the lake; a table with a busy writer waits for a quieter hour of the window. Without a
        survey the order is that of the names. (templated)
    :param until: the end of the window, for the order by need: a date and time, or `HH:MM` (UTC). (templated)
    :param blackouts: skip this task, and so the DAG run, on these days and at these hours: a list of
        `{"days", "hours", "why", "time_zone"}`. (templated)

    Airflow maps over 1024 values by default (`[core] max_map_length`); more tables fail the task, which says
    so.
    """

    template_fields: Sequence[str] = (
        "database",
        "include",
        "exclude",
        "partition_key",
        "order",
        "until",
        "blackouts",
        "lake_conn_id",
    )

    def __init__(
        self,
        *,
        database: Sequence[str] | str = _ANY,
        include: Sequence[str] | str = (_ANY,),
        exclude: Sequence[str] | str = (),
        partition_key: str | None = None,
        order: str = "name",
        until: str | None = None,
        blackouts: Sequence[Mapping[str, Any]] | str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database = database
        self.include = include
        self.exclude = exclude
        self.partition_key = partition_key
        self.order = order
        self.until = until
        self.blackouts = blackouts
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> list[str]:
        with airflow_errors():
            self._check_order()
            skip_in_blackout(self.blackouts)
            catalog = LakeHook(self.lake_conn_id).catalog()
            databases = self._databases(catalog)
            names = sorted(name for database in databases for name in tables_of(catalog, database))
            chosen = [name for name in names if self._chosen(name)]
            if self.partition_key:
                chosen = [name for name in chosen if self._has_key(catalog, name)]
            if self.order == "need":
                chosen = self._by_need(catalog, chosen, context)
        self.log.info("%d of %d tables of %d databases", len(chosen), len(names), len(databases))
        check_map_length(chosen, "tables")
        return chosen

    def _check_order(self) -> None:
        from lakecore.errors import InvalidInputError

        if self.order not in _ORDERS:
            raise InvalidInputError(f"order={self.order!r}: use one of {', '.join(_ORDERS)}")

    def _by_need(self, catalog: Catalog, names: list[str], context: Context) -> list[str]:
        """Return the names, the worst table first. A survey that cannot be read changes nothing but the
        order.
        """
        from lakecore.clock import SystemClock
        from lakecore.errors import LakeError
        from lakecore.jobs.survey import latest_survey
        from lakecore.jobs.window.order import by_need

        try:
            survey = latest_survey(catalog)
        except LakeError as err:
            self.log.warning("the order is that of the names, because no survey can be read: %s", err)
            return names
        if survey is None:
            self.log.info("the order is that of the names; the DAG lakecore_survey makes a survey")
        clock = SystemClock()
        return by_need(names, survey, clock.now_ms(), window_end_ms(self.until, context, clock))

    def _databases(self, catalog: Catalog) -> list[str]:
        """Return the databases that match. One that is named and does not exist is left to the catalog, which
        refuses it.
        """
        patterns = _patterns(self.database) or [_ANY]
        there = catalog.list_databases()
        databases = [one for one in patterns if not set(one) & set("*?[")]
        matching = [name for name in there if any(fnmatchcase(name, pattern) for pattern in patterns)]
        return sorted({*matching, *databases})

    def _chosen(self, name: str) -> bool:
        return is_chosen(name, self.database, self.include, self.exclude)

    def _has_key(self, catalog: Catalog, name: str) -> bool:
        """Return whether a table is partitioned by the column. A table whose schema cannot be read is not
        left out, so that its own task says why.
        """
        from lakecore.errors import LakeError

        try:
            schema = catalog.load_table(name).schema
        except LakeError as err:
            self.log.warning("%s: its partition keys are not known: %s", name, err)
            return True
        if self.partition_key not in schema.partition_keys:
            return False
        kind = str(schema.row_type.field(self.partition_key).type)
        fits = kind.startswith(("CHAR", "VARCHAR", "STRING", "DATE"))
        if not fits:
            self.log.info("%s is left out: %s is of type %s", name, self.partition_key, kind)
        return fits


class NamedTablesOperator(BaseOperator):
    """Return the tables that are named, to map a task over them; none is no error.

    :param tables: names `database.table`, as a list or split by commas. (templated)
    """

    template_fields: Sequence[str] = ("tables",)

    def __init__(self, *, tables: Sequence[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = tables

    def execute(self, context: Context) -> list[str]:
        from lakecore.errors import InvalidInputError

        names = _patterns(self.tables)
        with airflow_errors():
            for name in names:
                if not all(name.partition(".")):
                    raise InvalidInputError(f"table {name!r}: write database.table")
            check_map_length(names, "tables")
        if not names:
            self.log.info("no table is named, so there is nothing to do")
        return names


def tables_of(catalog: Catalog, database: str) -> list[str]:
    """Return `database.table` for each table, and for each directory that has snapshots, but no schema."""
    from lakecore.jobs.runner.table_directories import TableDirectories

    return [f"{database}.{name}" for name in TableDirectories(catalog).list_tables(database)]


def check_map_length(values: Sequence[Any], what: str) -> None:
    """Raise AirflowFailException when Airflow would refuse to map over so many values."""
    from lakecore_airflow.airflow_names import AirflowFailException

    most = conf.getint("core", "max_map_length", fallback=1024)
    if len(values) > most:
        raise AirflowFailException(
            f"there are {len(values)} {what}, and Airflow maps a task over at most {most} ([core] "
            "max_map_length): raise that, choose fewer with patterns, or take CompactDatabaseOperator, which "
            "needs one task for all"
        )


def is_chosen(
    name: str, database: Sequence[str] | str, include: Sequence[str] | str, exclude: Sequence[str] | str
) -> bool:
    """Return whether `ListTablesOperator` with these parameters returns a table that is there."""
    databases = _patterns(database) or [_ANY]
    is_in = any(fnmatchcase(name.partition(".")[0], pattern) for pattern in databases)
    return is_in and _matches(name, include) and not _matches(name, exclude)


def database_pattern(patterns: Sequence[str] | str) -> str:
    """Return the regular expression that matches the names of databases as `ListTablesOperator` does."""
    return "|".join(translate(one) for one in _patterns(patterns) or [_ANY])


def table_pattern(patterns: Sequence[str] | str) -> str:
    """Return the regular expression that matches `database.table` as `ListTablesOperator` does; without
    patterns an empty text.
    """
    return "|".join(("" if "." in one else r"[^.]*\.") + translate(one) for one in _patterns(patterns))


def _matches(name: str, patterns: Sequence[str] | str) -> bool:
    _, _, short = name.partition(".")
    return any(fnmatchcase(name if "." in pattern else short, pattern) for pattern in _patterns(patterns))


def _patterns(patterns: Sequence[str] | str) -> list[str]:
    if not isinstance(patterns, str):
        return list(patterns)
    return [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
