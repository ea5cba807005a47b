"""Files that are no record at all: each is one finding, and none is opened that is no ordinary file."""

import os
from pathlib import Path

import pytest

from rules.records.codec import Damage, decode
from rules.records.run import RunRecord


def damage(folder: Path, text: bytes) -> tuple[str, str, str]:
    path = folder / "file.json"
    path.write_bytes(text)
    found = decode(path, RunRecord)
    assert isinstance(found, Damage) and found.path == path
    return found.member, found.found, found.expected


@pytest.mark.parametrize(
    ("text", "member", "found", "expected"),
    [
        (b"", "", "Expecting value", "JSON"),
        (b"{", "", "Expecting property name", "JSON"),
        (b"[]", "", "[]", "a JSON object"),
        (b"null", "", "null", "a JSON object"),
        (b'{"a": "\xff"}', "", "byte 0xff at byte 7", "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "", "byte 0xff at byte 0", "UTF-8"),
        (b"\xef\xbb\xbf{}", "", "Unexpected UTF-8 BOM", "JSON"),
        (b"[" * 200_000, "", "deeply nested values", "at most 32 levels"),
        (b'{"a":' * 60 + b"1" + b"}" * 60, "a" + ".a" * 31, "deeply nested values", "at most 32 levels"),
        (b'{"run_index": 0, "run_index": 1}', "", "a key that is given more than once", "each key once"),
        (b'{"a": [{"b": 1, "b": 1}]}', "a[0]", "a key that is given more than once", "each key once"),
        (b'{"evaluations": [{"quality": NaN}]}', "evaluations[0].quality", "nan", "a finite number"),
        (b'{"a": -Infinity}', "a", "-inf", "a finite number"),
        (b'{"a b": 1e999}', '["a b"]', "inf", "a finite number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "", "Exceeds the limit", "JSON"),
    ],
)
def test_what_is_no_json_object_is_one_finding(
    text: bytes, member: str, found: str, expected: str, tmp_path: Path
) -> None:
    said = damage(tmp_path, text)
    assert (said[0], said[2]) == (member, expected) and said[1].startswith(found)


def test_what_is_no_ordinary_file_is_not_opened(tmp_path: Path) -> None:
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.truncate(100_000_000)
    os.mkfifo(tmp_path / "pipe.json")
    for name, found in (("big", "100,000,000 bytes"), ("pipe", "something that"), ("none", "no file")):
        said = decode(tmp_path / f"{name}.json", RunRecord)
        assert isinstance(said, Damage) and said.member == "" and said.found.startswith(found)
    folder = decode(tmp_path, RunRecord)
    assert isinstance(folder, Damage) and folder.found == "something that is no regular file"
    odd = decode(Path("a\0b"), RunRecord)
    assert isinstance(odd, Damage) and "null" in odd.found
