"""This module has the reasons for which row groups of a file are not copied. Whoever gets one decodes the
file instead.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["SpliceReason", "SpliceRefusal"]


class SpliceReason(Enum):
    """Each value ends the sentence "the file was decoded, because …" of a report."""

    NOT_PARQUET = "it is not a parquet file"
    ENCRYPTED = "it is encrypted"
    DAMAGED = "its footer or its page indexes cannot be decoded"
    UNKNOWN_FIELDS = "its footer has fields that this release does not know"
    OTHER_FILE = "a column of it is stored in another file"
    OLD_WRITER = "readers mistrust the statistics of its writer"
    BLOOM_FILTERS = "it has bloom filters"
    FIXED_DICTIONARIES = "it has dictionaries of long decimals, in which Java finds no value of a filter"
    EMPTY_GROUPS = "it has row groups without rows, or none"
    SMALL_GROUPS = "its row groups are small"
    OTHER_COLUMNS = "its columns are not those of the table, in their order"
    OTHER_CODEC = "its codec is not the one that the table asks for"
    OTHER_SCHEMA = "its parquet schema differs from that of the first file"
    OTHER_METADATA = "its footer has other metadata than that of the first file"
    OTHER_ORDERS = "its statistics are in another order than those of the first file"
    OTHER_INT96 = "its INT96 times come from another writer than those of the first file"
    PAGES = "its pages are not where its footer and its page indexes say"
    PLAIN_FIRST = "a column has plain pages before pages with a dictionary, which Java reads wrongly"
    CHECKSUM = "the checksum of a page is wrong"
    DELETED_ROWS = "some of its rows are deleted"
    DELETES = "it has deletes that are dropped, or does not say how many it has"
    OVERLAPS = "other files of the merge have keys among its own"
    OTHER_TABLE = "the table had other columns when it was written"
    STATISTICS = "its manifest entry tells other statistics than its footer"
    FILE_INDEXES = "new files of the table have file indexes"
    ROW_IDS = "its rows get ids that are stored"
    LAYOUT = "the table stores variants or maps in columns of their own"
    MIXED = "most of the rows around it must be decoded"


class SpliceRefusal(Exception):
    """The row groups of this file are not copied. `detail` names what was found; it is for logs."""

    def __init__(self, reason: SpliceReason, detail: str = "") -> None:
        super().__init__(f"{reason.value}{f' ({detail})' if detail else ''}")
        self.reason = reason
        self.detail = detail
