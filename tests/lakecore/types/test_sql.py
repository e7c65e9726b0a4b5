from lakecore.types.datatypes import parse_type
from lakecore.types.sql import type_text


def test_nested_types_on_one_line() -> None:
    row = {
        "type": "ROW NOT NULL",
        "fields": [
            {"id": 1, "name": "a", "type": "INT"},
            {"id": 2, "name": "b", "type": {"type": "MULTISET", "element": "STRING"}},
        ],
    }
    kind = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": row}})
    assert type_text(kind) == "MAP<STRING NOT NULL, ARRAY<ROW<a INT, b MULTISET<STRING>> NOT NULL>>"
