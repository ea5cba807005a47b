"""Usual JSON records are read by a short way: it says what the careful way says, whatever the file."""

import json
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules.records.codec import MAX_DEPTH, Damage, read_object

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "a:b", "\\", "é", '":', "\x7f", "a"])
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab:"), inner, max_size=3)
)


def read(path: Path, text: str) -> Any:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    found = read_object(path)
    return ("damage", found.member, found.found) if isinstance(found, Damage) else repr(found)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("usual") / "run.json"


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc:"), VALUES), max_size=4), st.sampled_from([None, 1]))
@example([("a", 1), ("a", 2)], None)
@example([("a", 1), ("a", 1)], 1)
@example([("a", {"b": ":"}), ("b", ":"), ("b", 0)], None)
@example([("a", 10**30), ("b", -(2**63) - 1), ("c", 2**64)], None)
@example([("a", -0.0), ("b", 5e-324), ("c", 1.7976931348623157e308)], None)
def test_the_short_and_the_careful_way_agree(place: Path, pairs: list[tuple[str, Any]], indent: int | None) -> None:
    """An escape in the first key makes no difference but that the file is read the careful way."""
    members = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False, indent=indent)}" for name, value in pairs]
    short, careful = (f"{{{', '.join([first, *members])}}}" for first in ('"x": 0', '"\\u0078": 0'))
    assert read(place, short) == read(place, careful)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, 2_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a": ', "}")])
def test_both_take_the_same_depth(place: Path, depth: int, begin: str, end: str) -> None:
    short, careful = (
        read(place, f'{{"{name}": {begin * depth}{"1" if begin != "[" else ""}{end * depth}}}')
        for name in ("x", "\\u0078")
    )
    assert short == careful and (short[0] == "damage") == (depth >= MAX_DEPTH)


@pytest.mark.parametrize(
    "text",
    [
        "", "[1]", "{", '{"x": NaN}', '{"x": 1e400}', '{"x": 01}', '{"x": "\x01"}', '{"x": 1} 2', '\ufeff{"x": 1}',
        "9" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_record_is_named_as_before(place: Path, text: str) -> None:
    assert read(place, text)[0] == "damage"
