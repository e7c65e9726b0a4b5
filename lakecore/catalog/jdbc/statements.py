"""This module has the SQL statements on Paimon's own tables (`JdbcUtils` of 1.4 and 2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CREATE", "CREATE_LOCKS", "CREATE_VIEWS", "OF_VIEW", "RELEASE_EXPIRED", "VIEWS"]

CREATE = (
    """CREATE TABLE IF NOT EXISTS paimon_tables (
        catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name))""",
    """CREATE TABLE IF NOT EXISTS paimon_database_properties (
        catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, property_key VARCHAR(255),
        property_value VARCHAR(1000), PRIMARY KEY (catalog_key, database_name, property_key))""",
    """CREATE TABLE IF NOT EXISTS paimon_table_properties (
        catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000),
        PRIMARY KEY (catalog_key, database_name, table_name, property_key))""",
)
"""Each statement creates a table of a catalog."""
CREATE_VIEWS = """CREATE TABLE IF NOT EXISTS paimon_views (
    catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, view_name VARCHAR(255) NOT NULL,
    view_schema TEXT NOT NULL, PRIMARY KEY (catalog_key, database_name, view_name))"""
"""This statement creates the table of views, which Paimon has since 2.0."""
CREATE_LOCKS = """CREATE TABLE IF NOT EXISTS paimon_distributed_locks (
    lock_id VARCHAR({length}) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id))"""
"""This statement creates the table of locks; `length` is that of a key."""
RELEASE_EXPIRED: Mapping[str, str] = MappingProxyType(
    {
        "sqlite": """DELETE FROM paimon_distributed_locks
            WHERE strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds
            AND lock_id = :id""",
        "mysql": """DELETE FROM paimon_distributed_locks
            WHERE TIMESTAMPDIFF(SECOND, acquired_at, NOW()) > expire_time_seconds AND lock_id = :id""",
        "postgresql": """DELETE FROM paimon_distributed_locks
            WHERE EXTRACT(EPOCH FROM AGE(NOW(), acquired_at)) > expire_time_seconds AND lock_id = :id""",
    }
)
"""Each statement releases a lock whose time is over by the clock of the database; the key is its kind."""
VIEWS = "paimon_views"
"""This table has the views of a catalog of Paimon 2.0."""
OF_VIEW = "catalog_key = :key AND database_name = :database AND view_name = :view"
"""This condition selects one view."""
