"""Files of columns as people have them: what `init` guesses of them is what `prepare` reads."""

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from reference_models.data.columns import json_lines
from reference_models.data.columns.guess import Guess, guess_columns
from reference_models.data.columns.json_lines import JsonLines
from reference_models.data.columns.prepare import prepare_columns
from reference_models.data.columns.text import TextForm, Utf8Text
from reference_models.data.prepared import order
from reference_models.data.prepared.pipeline import PreparedDataset
from reference_models.data.prepared.spool import Spool, SpoolColumn
from reference_models.data.registry import open_dataset, parse_data
from reference_models.process.errors import ConfigError, DatasetError

NUM_ROWS = 2400


def make_frame(num_rows: int = NUM_ROWS) -> pd.DataFrame:
    draw = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "user": [f"u{number}" for number in draw.integers(0, 40, num_rows)],
            "item": [f"café {number}" for number in draw.integers(0, 30, num_rows)],
            "price": np.round(1 + 30 * draw.random(num_rows), 2),
            "click": draw.integers(0, 2, num_rows),
        }
    )


def both(path: Path, **known: Any) -> tuple[Guess, PreparedDataset]:
    """Guess a definition from a file, and prepare the file by it."""
    guess = guess_columns(path, "mine", known)
    data = parse_data(json.loads(json.dumps(guess.data)))
    return guess, prepare_columns([path], [], data, path.parent / f"{path.name}.d")


def columns_of(guess: Guess) -> dict[str, list[str]]:
    parameters = guess.data["parameters"]
    return {kind: [column["column"] for column in parameters[kind]] for kind in ("dense", "sparse")}


WHOLE = {"dense": ["price"], "sparse": ["user", "item"]}


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plain") / "a.csv"
    make_frame().to_csv(path, index=False)
    return both(path)[1].dataset_sha256


def zipped(text: bytes, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._a.csv", b"x")
        archive.writestr("a.csv", text)


def separated(separator: str) -> Callable[[pd.DataFrame], bytes]:
    return lambda frame: frame.to_csv(index=False, sep="\x02").replace("\x02", separator).encode()


def numbered(frame: pd.DataFrame) -> bytes:
    lines = frame.to_csv(index=False).splitlines()
    return "\n".join([lines[0], *(f'"{number}",{line}' for number, line in enumerate(lines[1:]))]).encode()


def trailing(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator=",\n").replace(",\n", "\n", 1).encode()


def in_two(text: bytes) -> bytes:
    return lzma.compress(text[:999]) + lzma.compress(text[999:])


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv.gz", lambda frame: gzip.compress(frame.to_csv(index=False).encode(), mtime=0)),
        ("a.csv.bz2", lambda frame: bz2.compress(frame.to_csv(index=False).encode())),
        ("a.csv.xz", lambda frame: lzma.compress(frame.to_csv(index=False).encode())),
        ("two.xz", lambda frame: in_two(frame.to_csv(index=False).encode())),
        ("mark.csv", lambda frame: frame.to_csv(index=False).encode("utf-8-sig")),
        ("crlf.csv", lambda frame: frame.to_csv(index=False, lineterminator="\r\n").encode()),
        ("a.tsv", separated("\t")),
        ("a.dat", separated("::")),
        ("a.hive", separated("\x01")),
        ("semicolon.csv", separated(";")),
        ("excel.csv", lambda frame: b"sep=;\r\n" + separated(";")(frame)),
        ("blank.csv", separated(" ,  ")),
        ("trailing.csv", trailing),
        ("rows_of_r.csv", numbered),
        ("decimal.csv", lambda frame: frame.to_csv(index=False, sep=";", decimal=",").encode()),
        ("a.jsonl", lambda frame: frame.to_json(orient="records", lines=True).encode()),
        ("empty_column.csv", lambda frame: frame.assign(nothing=None).to_csv(index=False).encode()),
    ],
)  # fmt: skip
def test_the_same_rows_in_any_form_are_guessed_and_prepared_alike(
    tmp_path: Path, digest: str, name: str, write: Callable[[pd.DataFrame], bytes]
) -> None:
    (tmp_path / name).write_bytes(write(make_frame()))
    guess, prepared = both(tmp_path / name)
    assert (columns_of(guess), guess.data["parameters"]["label"]) == (WHOLE, "click")
    assert (prepared.dataset_sha256, prepared.num_malformed) == (digest, 0)


def test_an_archive_of_one_file_is_read_and_one_of_several_is_named(tmp_path: Path, digest: str) -> None:
    zipped(make_frame().to_csv(index=False).encode(), tmp_path / "a.zip")
    assert both(tmp_path / "a.zip")[1].dataset_sha256 == digest
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as archive:
        archive.writestr("b.csv", b"x")
    with pytest.raises(DatasetError, match=r"a zip archive of 2 files.*unzip"):
        guess_columns(tmp_path / "a.zip", "mine", {})


@pytest.mark.parametrize("reads", ["init", "prepare"])
@pytest.mark.parametrize(
    ("encoding", "remedy"),
    [
        ("latin-1", r"row 1: column 'item' is 'caf.xe9 \d+', expected UTF-8.*iconv -f WINDOWS-1252 -t UTF-8 a.csv"),
        ("cp1252", r"row 1: column 'item' is 'caf.xe9 \d+', expected UTF-8.*iconv -f WINDOWS-1252 -t UTF-8 a.csv"),
        ("utf-16", r"is UTF-16, expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 "),
        ("utf-16-le", r"is UTF-16LE, expected UTF-8. Convert it: iconv -f UTF-16LE "),
        ("utf-16-be", r"is UTF-16BE, expected UTF-8. Convert it: iconv -f UTF-16BE "),
        ("utf-32", r"is UTF-32, expected UTF-8. Convert it: iconv -f UTF-32 "),
    ],
)
def test_text_that_is_not_utf_8_is_named_with_what_converts_it(
    tmp_path: Path, encoding: str, remedy: str, reads: str
) -> None:
    make_frame().to_csv(tmp_path / "plain.csv", index=False)
    data = parse_data(guess_columns(tmp_path / "plain.csv", "mine", {}).data)
    path = tmp_path / "a.csv"
    path.write_bytes(make_frame().to_csv(index=False).encode(encoding))
    with pytest.raises(DatasetError, match=remedy):
        if reads == "init":
            guess_columns(path, "mine", {})
        else:
            prepare_columns([path], [], data, tmp_path / "d")


@pytest.mark.parametrize("column", range(4))
def test_one_bad_byte_leaves_out_its_row_in_any_column(tmp_path: Path, column: int) -> None:
    lines = make_frame().to_csv(index=False).encode().split(b"\n")
    cells = lines[1500].split(b",")
    cells[column] += b"\xe9"
    lines[1500] = b",".join(cells)
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    guess, prepared = both(tmp_path / "a.csv")
    assert (columns_of(guess), prepared.num_malformed) == (WHOLE, 1)
    assert "row 1500: " in prepared.malformed[0] and "expected UTF-8" in prepared.malformed[0]


def test_a_bad_byte_in_a_row_of_another_width_is_a_malformed_row(tmp_path: Path) -> None:
    lines = make_frame().to_csv(index=False).encode().split(b"\n")
    lines[1500] = b"\xe9,1"
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    assert "row 1500: 2 columns, expected 4" in both(tmp_path / "a.csv")[1].malformed[0]


def test_raw_bytes_of_parquet_are_ids(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(make_frame(), preserve_index=False)
    raw = pa.array([bytes([0xE9, number % 40, 0xFF]) for number in range(NUM_ROWS)], pa.binary())
    parquet.write_table(table.set_column(0, "user", raw), tmp_path / "a.parquet")
    guess, prepared = both(tmp_path / "a.parquet")
    assert (columns_of(guess), prepared.num_embeddings[0]) == (WHOLE, 41)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ORC...", r"is ORC, expected CSV, JSON lines or Parquet. Convert it"),
        ((100).to_bytes(8, "little") + b"abcd" + b"\x0a\x00" * 60, r"is TFRecord"),
        (b"\x28\xb5\x2f\xfd and more", r"is compressed with zstd.*zstd -d"),
        (b'[{"user": 1}]', r"is one JSON array.*jq -c"),
        (
            (b"0\t" + b"\t" * 13 + b"68fd1e64\t" * 25 + b"\n") * 30,
            r"no header: .* or use --kind criteo if it is of Criteo",
        ),
        (b"u1,i1,0.5,1\nu2,i1,0.7,0\n" * 20, r":1: the file has no header.*data.parameters.names=\["),
        (b"u1,i1,yes\n" + b"u1,i2,no\nu2,i1,yes\n" * 20, r":1: the file has no header: .*later rows"),
        (b"user,click\n" + b"u1,1,1,1\nu2,0,0,0\n" * 99, r"row 1: 4 columns, expected 2; 198 of the first 198 rows"),
        (b"a," * 20_000 + b"b\n1\n", r":1: 20,001 columns, expected at most 16,384"),
        (b"\n" * (2 << 20) + b"a,b\n1,2\n", r": is empty"),
        (b"\n" * (1 << 19) + b"a,b\n1,2\n" * (1 << 17), r":1: begins with blank lines alone"),
        (b'click,user\n0,"' + b"x" * (3 << 20), r":2: about here a row has more than 1,048,576 bytes"),
        (b"\x1c\n\x1d\n", r"has a header and no rows|no header|no column"),
        (b"user,click\n" + b"u1,1\nu2,1\n" * 20, r"column 'click' holds '1' alone, expected two values"),
        (b"user,banned\n" + b"u1,0\nu2,0\n" * 20, r"no column holds 0 and 1 alone"),
        (
            b"user,click\n" + b"u1,0\nu2,1\n" * 20 + b"u3,maybe\n",
            r"numbers but for 'maybe' and the like in 1 of 41 cells",
        ),
        (b"user,click\n" + b"u1,view\nu2,cart\nu2,buy\n" * 20, r"'view', 'cart', 'buy': .*positive=\[\"buy\"\]"),
        (b"user,click\n" + b"u1,0\nu2,1\n" * 99 + b"u\x003,1\n", r":200: holds a zero byte, .* tr -d '\\0' <"),
        (b"x" * (3 << 20), r":1: a line of more than 1,048,576 bytes"),
        (b"1 3:1 4:0.5\n0 5:1\n" * 20, r"as in '1 3:1 4:0.5': pairs of key and value, as libsvm"),
        (b"click:0 slot:3\nclick:1 slot:4\n" * 20, r"as in 'click:0 slot:3': pairs of key and value"),
        (b"1 u1 i1\n0 u2 i3\n" * 20, r"--set 'data.parameters.delimiter=\" \"'"),
        (b"u1,101,0.5\n" + b"u2,101,0.7\n" * 9, r"no header"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", r"Git LFS pointer.*git lfs pull --include="),
    ],
)
def test_what_is_no_table_is_one_clear_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        guess_columns(tmp_path / "a.csv", "mine", {})
    assert len(str(caught.value)) < 500


def test_a_header_may_name_columns_by_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"click,101,121\n" + b"0,85077,5\n1,60,7\n" * 20)
    parameters = guess_columns(tmp_path / "a.csv", "mine", {}).data["parameters"]
    assert parameters["label"] == "click"
    assert {column["column"] for key in ("dense", "sparse") for column in parameters.get(key, ())} == {"101", "121"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "known", "expected", "share"),
    [
        ([-1, 1], {}, {"positive_from": 1.0}, 0.5),
        (["no", "yes"], {}, {}, 0.5),
        (["False", "True"], {}, {}, 0.5),
        ([0, 0, 1, 3], {}, {"positive_from": 1.0}, 0.5),
        ([0, 0, 1, 5], {}, {"positive_from": 1.0}, 0.5),
        ([1, 3, 4, 5], {"label": "click"}, {"positive_from": 4.0}, 0.5),
        ([0.0, 0.25, 0.5, 1.0], {"positive_from": 0.5}, {"positive_from": 0.5}, 0.5),
        ([0.0, 0.25, 0.5, 1.0], {}, {}, 0.4375),
        (["view", "buy", "cart", "view"], {"label": "click", "positive": ["buy"]}, {"positive": ["buy"]}, 0.25),
    ],
)
def test_labels_of_any_kind_are_told(
    tmp_path: Path, labels: list[Any], known: dict[str, Any], expected: dict[str, Any], share: float
) -> None:
    frame = make_frame().assign(click=labels * (NUM_ROWS // len(labels)))
    frame.to_csv(tmp_path / "a.csv", index=False)
    guess, prepared = both(tmp_path / "a.csv", **known)
    found = {key: value for key, value in guess.data["parameters"].items() if key.startswith("positive")}
    assert found == expected
    dataset = open_dataset(prepared.folder, parse_data(guess.data)).train
    assert dataset.read(0, 2160).labels.numpy().mean() == share


@pytest.mark.parametrize("known", [{}, {"label": "click"}, {"positive": ["buy"]}, {"soft_labels": True}])
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (pa.array([[1.0], [0.0]] * 6), "column 'click' holds lists, expected one label a row"),
        (pa.array([None] * 12, pa.list_(pa.int64())), "column 'click' holds lists, expected one label a row"),
        (pa.array([None] * 12, pa.string()), "column 'click' holds nothing, expected two values"),
    ],
)
def test_a_column_without_a_label_in_each_row_is_named(
    tmp_path: Path, cells: pa.Array, message: str, known: dict[str, Any]
) -> None:
    parquet.write_table(pa.table({"user": [*"abcdefghijkl"], "click": cells}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match=message):
        guess_columns(tmp_path / "a.parquet", "mine", known)


@pytest.mark.parametrize("known", [{}, {"positive_from": 1}, {"positive": ["buy"]}, {"soft_labels": True}])
def test_lists_are_no_labels(tmp_path: Path, known: dict[str, Any]) -> None:
    parquet.write_table(pa.table({"user": [*"ab"], "click": [[1.0], [0.0]]}), tmp_path / "a.parquet")
    parameters = {"label": "click", "sparse": [{"column": "user"}], **known}
    data = parse_data({"kind": "columns", "name": "mine", "parameters": parameters})
    with pytest.raises(DatasetError, match=r"column 'click' holds list<.*, expected labels"):
        prepare_columns([tmp_path / "a.parquet"], [], data, tmp_path / "d")


@pytest.mark.slow
def test_what_tells_the_label_and_what_names_rows_is_left_out_with_the_reason(tmp_path: Path) -> None:
    frame = make_frame().rename(columns={"user": "user_id:token", "click": "label:float"})
    frame["conversion"], frame["id"] = frame["label:float"], np.arange(NUM_ROWS, dtype=np.uint64) + 2**63
    frame["hash"] = np.arange(NUM_ROWS, dtype=np.uint64) % 50 + 2**63
    frame["timestamp:float"] = 1.6e9 + np.arange(NUM_ROWS)[::-1]
    for path, write in ((tmp_path / "a.inter", lambda path: frame.to_csv(path, sep="\t", index=False)),
                        (tmp_path / "a.parquet", frame.to_parquet)):  # fmt: skip
        write(path)
        guess, prepared = both(path)
        assert columns_of(guess) == {"dense": ["price"], "sparse": ["user_id:token", "item", "hash"]}
        assert prepared.num_embeddings[2] == 51
        assert guess.data["parameters"]["time"] == "timestamp:float"
        reason = guess.reasons["sparse", None]
        assert "'conversion' (named as a label" in reason and "'id' (another value in every row)" in reason


ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns", "UTC")


CHANGES = ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05")


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        pytest.param(zone, change, marks=[pytest.mark.slow] if (zone, change) != (ZONES[0], CHANGES[1]) else [])
        for zone in ZONES
        for change in CHANGES
    ],
)
def test_times_are_instants_in_any_zone_over_changes_of_the_clock(tmp_path: Path, zone: str, change: str) -> None:
    begin = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(hours=20)
    times = [(begin + timedelta(minutes=30 * number)).astimezone(ZoneInfo(zone)) for number in range(96)]
    written = [time.isoformat(sep=" T"[number % 2 :][0]) for number, time in enumerate(times)]
    first = times[60].astimezone(UTC).isoformat().replace("+00:00", "Z")
    frame = pd.DataFrame({"user": ["a", "b"] * 48, "click": [0, 1] * 48})
    parameters = {"label": "click", "sparse": [{"column": "user"}], "split": "time", "time": "at", "eval_from": first}
    data = parse_data({"kind": "columns", "name": "mine", "parameters": parameters})
    frame.assign(at=written).to_csv(tmp_path / "a.csv", index=False)
    instants = pa.array(times, pa.timestamp("us", zone))
    parquet.write_table(pa.Table.from_pandas(frame).append_column("at", instants), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        prepared = prepare_columns([tmp_path / name], [], data, tmp_path / f"{name}.d")
        assert prepared.num_samples == {"train": 60, "eval": 36}
        assert guess_columns(tmp_path / name, "mine", {}).data["parameters"]["time"] == "at"


def test_a_date_of_toml_and_its_text_split_alike(tmp_path: Path) -> None:
    frame = make_frame(300).assign(day=[f"2026-01-{1 + row // 10:02}" for row in range(300)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    digests = set()
    for number, first in enumerate((datetime(2026, 1, 20).date(), "2026-01-20", "2026-01-20T00:00")):
        parameters = {"label": "click", "sparse": [{"column": "user"}], "split": "time", "time": "day"}
        data = parse_data({"kind": "columns", "name": "m", "parameters": {**parameters, "eval_from": first}})
        prepared = prepare_columns([tmp_path / "a.csv"], [], data, tmp_path / str(number))
        assert prepared.num_samples == {"train": 190, "eval": 110}
        digests.add(prepared.dataset_sha256)
    assert len(digests) == 1


KEYS = ("a", "b1", "a longer name of a key", 'k"q', "x\\y", "é", "")
SCALARS = (0, -7, 7.0, 1e22, 2**64, 1.5e-7, None, True, "", "7.0", "u, {v}", 'a "q"', "\\", "\\\\", "日", "[", "a\nb")
LINES = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from((*SCALARS, ["p", 1], [], [None], {"n": 1})), min_size=1),
    min_size=1,
    max_size=12,
)


def read_json(text: bytes) -> tuple[Any, ...]:
    """What lines hold, and those that are left out; or the error that they are."""
    wrong: list[tuple[int, str]] = []
    try:
        stream = Utf8Text(io.BytesIO(text), TextForm((), ",", 0))
        lines = JsonLines(Path("a.jsonl"), stream, lambda number, why: wrong.append((number, why)))
        batches = [(str(batch.schema), batch.to_pydict()) for batch in lines.batches(lines.names)]
    except DatasetError as error:
        return (str(error),)
    return batches, wrong, lines.names, lines.nested


@given(LINES, st.sampled_from([(",", ":"), (", ", ": "), (" , ", " :  ")]), st.booleans(), st.data())
def test_json_lines_read_at_once_are_those_read_one_by_one(
    rows: list[dict[str, Any]], marks: tuple[str, str], is_ascii: bool, data: st.DataObject
) -> None:
    text = "\n".join(json.dumps(row, separators=marks, ensure_ascii=is_ascii) for row in rows).encode()
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + data.draw(st.sampled_from([b"", b"{", b"]", b'"', b",", b"\\", b"\n", b"\r", b" "]))
            + (text[place + data.draw(st.integers(0, 1)) :])
        )
    found = read_json(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(JsonLines, "_cut", lambda *_: None)
        assert read_json(text) == found


def test_usual_json_lines_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JsonLines, "_read_lines", None)
    rows = [{"a": number, "b1": "u, v"} if number % 3 else {"b1": 'a "q"', "t": ["x", 1]} for number in range(9)]
    for text in ("".join(json.dumps(row) + end for row in rows).encode() for end in ("\n", "\r\n")):
        batches, wrong, *_ = read_json(text)
        cells = {name: [row.get(name) for row in rows] for name in ("a", "b1", "t")}
        assert batches[0][1] == {
            "a": [None if cell is None else str(cell) for cell in cells["a"]],
            "b1": cells["b1"],
            "t": [None if cell is None else ["x", "1"] for cell in cells["t"]],
        }
        assert not wrong


def test_lines_of_many_names_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_MOST_VALUES", 300)
    monkeypatch.setattr(JsonLines, "_read_lines", None)  # which is slow, and needed for no piece
    text = b"".join(b'{"a": %d, "k%d": "x"}\n' % (number, number % 99) for number in range(200))
    batches, wrong, names, _ = read_json(text)
    assert (len(batches), len(names), wrong) == (67, 100, [])
    assert [cell for _, columns in batches for cell in columns["a"]] == [*map(str, range(200))]


@given(
    st.lists(st.integers(-5, 5), max_size=60),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_merged_runs_are_in_stable_order(keys: list[int], num_rows_of_run: int, buffer_rows: int) -> None:
    column = np.array(keys, np.longdouble)
    runs = [range(start, min(start + num_rows_of_run, len(keys))) for start in range(0, len(keys), num_rows_of_run)]
    for run in runs:
        column[run.start : run.stop].sort()
    nexts, found = [run.start for run in runs], []
    for piece in order.merge_runs(lambda start, stop: column[start:stop], runs, buffer_rows):
        for which in map(int, piece):
            found.append((column[nexts[which]], which))
            nexts[which] += 1
    assert found == sorted(found) and len(found) == len(keys)


@pytest.mark.parametrize("num_rows_of_run", [7, 50])
def test_rows_of_a_spool_are_sorted_by_runs(
    num_rows_of_run: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of equal keys keep their order, also where they are of several runs."""
    monkeypatch.setattr(order, "_MERGED_ROWS", 12)
    keys = np.random.default_rng(0).integers(0, 9, 40)
    pairs = np.arange(80, dtype=np.int32).reshape(40, 2)
    with Spool(tmp_path, {"key": SpoolColumn("<i8"), "pair": SpoolColumn("<i4", 2)}) as spool:
        spool.append({"key": keys, "pair": pairs})
        spool.flush()
        order.sort_rows(spool, "key", num_rows_of_run)
        expected = np.argsort(keys, kind="stable")
        assert set(spool.names) == {"key", "pair"}
        np.testing.assert_array_equal(spool.read("key", 0, 40), keys[expected])
        np.testing.assert_array_equal(spool.read("pair", 0, 40), pairs[expected])


@pytest.mark.slow
def test_rows_that_are_not_in_the_order_of_time_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference_models.data.prepared.pipeline._COLUMN_ROWS", 250)
    draw = np.random.default_rng(0)
    frame = make_frame().assign(timestamp=1_700_000_000 + draw.integers(0, 800, NUM_ROWS))
    frame["tags"] = ["|".join("abc"[: 1 + row % 3]) for row in range(NUM_ROWS)]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.sort_values("timestamp", kind="stable").to_csv(tmp_path / "sorted.csv", index=False)
    guess, prepared = both(tmp_path / "a.csv")
    assert guess.data["parameters"]["time"] == "timestamp"
    assert prepared.dataset_sha256 == both(tmp_path / "sorted.csv")[1].dataset_sha256


@pytest.mark.parametrize("separator", ["|", ";", "^", " "])
def test_what_stands_between_the_ids_of_a_cell_is_told(tmp_path: Path, separator: str) -> None:
    frame = make_frame(300)
    frame["history"] = [separator.join(f"{number}" for number in range(row % 4)) for row in range(300)]
    frame.to_csv(tmp_path / "a.csv", index=False)
    guess, prepared = both(tmp_path / "a.csv")
    (found,) = (column for column in guess.data["parameters"]["sparse"] if column["column"] == "history")
    assert found == {"column": "history", "separator": separator, "max_ids": 3}
    assert prepared.num_embeddings[-1] == 4


KINDS: dict[str, tuple[list[str], dict[str, Any] | str]] = {
    "city of two words": (["New York", "Los Angeles", "Bern"], {"column": "what"}),
    "words in any order": (
        ["a b", "b c", "c a", "a c", "b a", "c b"],
        {"column": "what", "separator": " ", "max_ids": 2},
    ),
    "last month": (["Jan 31, 2026", "Feb 1, 2026", "Dec 11, 2025"], "dates with the year behind"),
    "day first": (["31/01/2026", "1/2/2026 10:30", "11/12/2025"], "dates with the year behind"),
    "release": (["10.2.14", "9.1.20", "11.0.19"], {"column": "what"}),
}
"""Cells of a column, and what is guessed of it: its table, or the reason why it is left out."""


@pytest.mark.parametrize("kind", KINDS)
def test_text_with_blanks_names_or_lists_or_is_a_date(tmp_path: Path, kind: str) -> None:
    cells, expected = KINDS[kind]
    make_frame(300).assign(what=cells * (300 // len(cells))).to_csv(tmp_path / "a.csv", index=False)
    guess = guess_columns(tmp_path / "a.csv", "mine", {})
    found = [column for column in guess.data["parameters"]["sparse"] if column["column"] == "what"]
    assert found == ([] if isinstance(expected, str) else [expected])
    assert not isinstance(expected, str) or f"'what' ({expected}" in guess.reasons["sparse", None]


def test_ids_that_pandas_wrote_as_floats_and_numbered_categories_are_no_amounts(tmp_path: Path) -> None:
    frame = make_frame(600).assign(user_id=[None, *range(1, 200)] * 3, C14=range(400, 1000), cents=range(400, 1000))
    frame.loc[0, ["C14", "cents"]] = 999
    frame.to_csv(tmp_path / "a.csv", index=False)
    guess = guess_columns(tmp_path / "a.csv", "mine", {"split": "files"})
    assert columns_of(guess) == {"dense": ["price", "cents"], "sparse": ["user", "item", "user_id", "C14"]}
    assert "whole numbers: if they are codes, move it to sparse" in guess.reasons["dense", 1]
    assert guess.data["parameters"]["split"] == "files" and ("split", None) not in guess.reasons


def test_a_mark_among_numbers_is_said_where_it_makes_them_a_category(tmp_path: Path) -> None:
    frame = make_frame(300).astype({"price": str})
    frame.loc[::50, "price"] = "?"
    frame.to_csv(tmp_path / "a.csv", index=False)
    guess = guess_columns(tmp_path / "a.csv", "mine", {})
    assert columns_of(guess) == {"dense": [], "sparse": ["user", "item", "price"]}
    assert "numbers but for '?' and the like in 6 of 300 cells: empty these" in guess.reasons["sparse", 2]


def test_a_delimiter_that_a_definition_lacks_is_named(tmp_path: Path) -> None:
    make_frame(300).to_csv(tmp_path / "a.csv", index=False)
    data = parse_data(guess_columns(tmp_path / "a.csv", "mine", {}).data)
    make_frame(300).to_csv(tmp_path / "b.csv", index=False, sep=";")
    with pytest.raises(ConfigError, match=r"b.csv: has one column .* Say delimiter = \";\" in data.parameters"):
        prepare_columns([tmp_path / "b.csv"], [], data, tmp_path / "d")


def test_a_split_that_is_given_leaves_no_time_beside_it(tmp_path: Path) -> None:
    make_frame(300).assign(timestamp=range(1_700_000_000, 1_700_000_300)).to_csv(tmp_path / "a.csv", index=False)
    parameters = guess_columns(tmp_path / "a.csv", "mine", {"split": "fraction"}).data["parameters"]
    assert (parameters["split"], parameters.get("time")) == ("fraction", None)
    assert "timestamp" not in str(parameters)
    assert guess_columns(tmp_path / "a.csv", "mine", {"split": "time"}).data["parameters"]["time"] == "timestamp"
    guess = guess_columns(tmp_path / "a.csv", "mine", {"time": "price"})
    assert (guess.data["parameters"]["time"], columns_of(guess)["dense"]) == ("price", [])
    with pytest.raises(ConfigError, match=r"has no column 'prize'. Did you mean 'price'"):
        guess_columns(tmp_path / "a.csv", "mine", {"time": "prize"})


DRAWS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "whole": lambda draw, size: draw.integers(-9, 10 ** draw.integers(1, 18), size),
    "price": lambda draw, size: np.round(draw.lognormal(1, 3, size), 3),
    "tiny": lambda draw, size: draw.random(size) * 1e-12,
    "user_id": lambda draw, size: draw.integers(0, 60, size),
    "hash": lambda draw, size: draw.integers(2**62, 2**63, 40).astype(np.uint64)[draw.integers(0, 40, size)] * 2,
    "word": lambda draw, size: draw.choice(["a", "Zürich", 'so, "quoted"', " blank ", "NA", "", "0x1F", "1_0"], size),
    "tags": lambda draw, size: ["|".join("abcde"[: draw.integers(0, 5)]) for _ in range(size)],
    "grouped": lambda draw, size: [f"{number:,}" for number in draw.integers(0, 10**7, size)],
    "comma": lambda draw, size: [f"{number:.2f}".replace(".", ",") for number in draw.random(size)],
    "date": lambda draw, size: [f"2026-{1 + n % 12:02}-{1 + n % 28:02}" for n in draw.integers(0, 999, size)],
    "at": lambda draw, size: [f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z" for n in draw.integers(0, 3600, size)],
    "us": lambda draw, size: [f"{1 + n % 12:02}/{1 + n % 28:02}/2026" for n in draw.integers(0, 999, size)],
    "flag": lambda draw, size: draw.choice(["True", "False"], size),
    "nothing": lambda draw, size: [None] * size,
    "same": lambda draw, size: [7] * size,
    "timestamp": lambda draw, size: 1_600_000_000 + draw.integers(0, 10**6, size),
    "hour": lambda draw, size: draw.integers(0, 24, size),
}
"""Columns by their names, which guesses look at too."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(500))
def test_what_is_guessed_of_a_table_is_what_is_prepared(tmp_path: Path, seed: int) -> None:
    """No row is left out: each cell is, to `prepare`, what `init` took its column for; and twice makes the same."""
    draw = np.random.default_rng(seed)
    size = int(draw.integers(60, 400))
    names = draw.choice([*DRAWS], draw.integers(1, 9), replace=False)
    columns = {name: pd.Series(list(DRAWS[name](draw, size)), dtype=object) for name in names}
    frame = pd.DataFrame(
        {"key": draw.integers(0, 9, size).astype(str), "site_id": draw.integers(0, 5, size), **columns}
    )
    for name in names:
        if draw.random() < 0.3:
            frame.loc[draw.random(size) < 0.2, name] = None
    labels = [(0, 1), ("no", "yes"), (-1, 1), (0, 3)][draw.integers(0, 4)]
    frame.insert(int(draw.integers(0, len(frame.columns))), "label", [labels[row % 2] for row in range(size)])
    form = draw.integers(0, 4)
    path = tmp_path / ("a.jsonl" if form == 3 else "a.csv")
    if form == 3:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep=",;\t"[form])
    guess, prepared = both(path)
    assert prepared.num_malformed == 0
    assert sum(prepared.num_samples.values()) == size
    data = parse_data(json.loads(json.dumps(guess.data)))
    assert prepare_columns([path], [], data, tmp_path / "again").dataset_sha256 == prepared.dataset_sha256
    dense = open_dataset(prepared.folder, data).train.read(0, 20).dense.numpy()
    assert np.isfinite(dense).all()


def test_few_bytes_with_long_cells_are_refused_or_read_in_pieces(tmp_path: Path) -> None:
    frame = make_frame()
    for number, size in ((0, 2_000_000), (1, 200_000)):
        table = pa.Table.from_pandas(frame.assign(item="x" * 10), preserve_index=False)
        long = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (NUM_ROWS // 2), pa.int32()), ["x" * size, "y"])
        parquet.write_table(table.set_column(1, "item", long), tmp_path / f"{number}.parquet", compression="zstd")
    with pytest.raises(DatasetError, match=r"'item' has a cell of 2,000,000 bytes, expected at most 1,048,576"):
        guess_columns(tmp_path / "0.parquet", "mine", {})
    parameters = {"label": "click", "sparse": [{"column": "item"}]}
    data = parse_data({"kind": "columns", "name": "m", "parameters": parameters})
    assert prepare_columns([tmp_path / "1.parquet"], [], data, tmp_path / "d").num_embeddings == (3,)
