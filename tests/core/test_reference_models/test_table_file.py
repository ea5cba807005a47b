"""Files of embedding tables: what they say is read, and whatever is no such file is refused by line."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from reference_models.data.table_file import COLUMNS, TableEntry, read_tables
from reference_models.process.errors import DatasetError

CSV = """name,rows,width,pooling,side,optimizer,precision,zipf_exponent
user_id,1000000,64,1,user,adagrad,int8,1.2
"clicked, last",5000,16,20.5,item,,,
"""
ROWS = [
    {"name": "user_id", "rows": 1_000_000, "width": 64, "pooling": 1, "side": "user"}
    | {"optimizer": "adagrad", "precision": "int8", "zipf_exponent": 1.2},
    {"name": "clicked, last", "rows": 5000.0, "width": 16, "pooling": 20.5, "side": "item", "optimizer": None},
]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("t.csv", CSV, (2, 3)),
        ("t.csv", "\ufeff" + CSV.replace("\n", "\r\n\r\n"), (3, 5)),
        ("t.json", json.dumps(ROWS, indent=1), (2, 12)),
        ("t.json", json.dumps(ROWS), (1, 1)),
    ],
)
def test_tables_are_what_their_file_says(name: str, text: str, lines: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, newline="")
    user, clicked = read_tables(path, ("width", "pooling"))
    assert user == TableEntry(
        name="user_id",
        rows=1_000_000,
        width=64,
        pooling=1.0,
        side="user",
        optimizer="adagrad",
        precision="int8",
        zipf_exponent=1.2,
        place=f"{path}:{lines[0]}",
    )
    assert clicked == TableEntry(
        name="clicked, last", rows=5000, width=16, pooling=20.5, side="item", place=f"{path}:{lines[1]}"
    )


REFUSED = {
    "": "no column 'name'",
    "rows\n1\n": ":1: no column 'name'",
    "name,rows\n": "no tables",
    "name,rows\na\n": ":2: 1 cells, expected 2",
    "name,rows\na,0\n": ":2: rows: found '0', expected a whole number from 1",
    "name,rows\na,1.5\n": ":2: rows: found '1.5'",
    "name,rows\na,nan\n": ":2: rows: found 'nan'",
    "name,rows\na,1e999\n": ":2: rows",
    "name,rows\na," + "9" * 5000 + "\n": ":2: rows: found '99",
    "name,rows\na,\n": ":2: rows: is missing",
    "name,rows\n,3\n": ":2: name: is missing",
    "name,rows\na,3\nb,4\na,5\n": ":4: table 'a' is already in",
    "name,rows,rows\na,3,3\n": ":1: two columns 'rows'",
    "name,rows,widht\na,3,3\n": "Did you mean 'width'",
    "name,rows,side\na,3,both\n": ":2: side: found 'both', expected user or item",
    "name,rows,pooling\na,3,inf\n": ":2: pooling: found 'inf'",
    "name,rows,zipf_exponent\na,3,-1\n": ":2: zipf_exponent",
    'name,rows\n"a,3\n': "expected cells with commas",
    "name,rows\n" + "a" * 201 + ",3\n": ":2: name: found 'aaa",
    "[3]": ":1: found 3, expected a table",
    '{"tables": []}': ':1: found \'{"tables"',
    "[]": "no tables",
    '[\n{"name": "a", "rows": 3}': ":2: found the end, expected a comma",
    '[\n{"name": "a", "rows": 3}\n{"name": "b"}]': ":3: found",
    '[\n{"name": "a", "rows": }]': ":2: Expecting value",
    '[\n\n{"name": "a", "rows": NaN}]': ":3: found NaN",
    '[\n{"name": "a", "name": "b", "rows": 1}]': ":2: found a column given twice",
    '[{"name": "a", "rows": true}]': ":1: rows: found True",
    '[{"name": "a", "rows": [1]}]': ":1: rows: found [1]",
    '[{"name": 7, "rows": 1}]': ":1: name: found 7",
    '[{"name": "a", "rows": ' + "9" * 5000 + "}]": ":1: found Exceeds",
    "[" * 100_000: "nested too deep",
    '[{"name": "a", "rows": 3}] [': ":1: found '['",
    '[{"name": "a", "rows": 3, "lookups": 3}]': "column 'lookups' is not known",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_file_that_is_none_is_refused_by_its_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / ("t.json" if text[:1] in ("[", "{") else "t.csv")
    path.write_text(text)
    with pytest.raises(DatasetError) as caught:
        read_tables(path)
    assert REFUSED[text] in str(caught.value) and str(path) in str(caught.value) and len(str(caught.value)) < 500


def test_what_a_reader_needs_is_asked_for_by_its_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,rows,width\na,3,\n")
    assert read_tables(path)[0].width is None
    with pytest.raises(DatasetError, match=r"t\.csv:2: width: is missing, expected a whole number"):
        read_tables(path, ("width",))


def test_only_files_of_text_of_a_size_are_read(tmp_path: Path) -> None:
    latin, large = tmp_path / "latin.csv", tmp_path / "large.csv"
    latin.write_bytes("name,rows\nstadt,3\nströme,4\n".encode("latin-1"))
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, said in ((latin, r"latin\.csv:3: .*UTF-8"), (large, "at most 16,777,216 bytes"), (tmp_path, "ends in")):
        with pytest.raises(DatasetError, match=said):
            read_tables(path)


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_no_damage_of_a_file_is_more_than_a_refusal(name: str, tmp_path: Path) -> None:
    content, path = (CSV if name == "t.csv" else json.dumps(ROWS)).encode(), tmp_path / name
    generator = np.random.default_rng(0)
    for number in range(150):
        damaged = bytearray(content)
        for at in generator.integers(len(content), size=1 + number % 4):
            damaged[at] = generator.integers(256)
        path.write_bytes(damaged)
        with suppress(DatasetError):
            assert len(read_tables(path)) <= len(content)


def test_each_column_is_a_member_of_a_table() -> None:
    assert {*COLUMNS} | {"place"} == set(TableEntry.__dataclass_fields__)
