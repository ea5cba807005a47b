"""Traces: misses are those of a cache that is really kept, and sources give the lookups that they say."""

import gzip
import io
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bounded_command import bounded_memory
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from reference_models.data.synthetic.dataset import scatter, zipf_ranks
from reference_models.data.table_file import TableEntry
from reference_models.data.traces import stack_distances
from reference_models.data.traces.drawn import count_lookups, draw_lookups
from reference_models.data.traces.sources import expect_touched, generate_reuse, read_lookups, read_profile
from reference_models.data.traces.stack_distances import (
    LEAST_OF_GROUP,
    MissRatioCurve,
    StackDistances,
    find_rows,
    measure_curve,
    sample_rows,
)
from reference_models.data.traces.trace import AccessTrace, TracedTable, reuse_histogram
from reference_models.process.errors import DatasetError

SIZES = (1, 7, 100, 1_000, 4_000)
PLENTY = 1 << 34


def zipf(num_accesses: int, num_rows: int, seed: int = 0) -> np.ndarray:
    return zipf_ranks(np.random.default_rng(seed).random(num_accesses), num_rows, 1.05)


def lru_misses(keys: np.ndarray, size: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for key in keys.tolist():
        if key in cache:
            cache.move_to_end(key)
            continue
        misses += 1
        cache[key] = None
        if len(cache) > size:
            cache.popitem(last=False)
    return misses


TRACES: dict[str, Callable[[], np.ndarray]] = {
    "zipf": lambda: zipf(40_000, 20_000),
    "uniform": lambda: np.random.default_rng(1).integers(0, 5_000, 40_000),
    "loops": lambda: np.concatenate([np.tile(np.arange(3_000), 5), zipf(5_000, 3_000), np.tile(np.arange(90), 200)]),
}


def curve_of(keys: np.ndarray, rate: float = 1.0, seed: int = 0) -> MissRatioCurve:
    if rate == 1:
        return measure_curve([keys])
    touched = find_rows(keys)
    return measure_curve([touched.numbers], sample_rows(touched, rate, seed))


@pytest.mark.parametrize("chunk", [1 << 18, 999])
@pytest.mark.parametrize("name", TRACES)
def test_misses_are_those_of_a_cache(name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_distances, "CHUNK", chunk)
    keys = TRACES[name]()
    curve = curve_of(keys)
    assert [lru_misses(keys, size) for size in SIZES] == curve.misses(np.array(SIZES)).tolist()
    assert curve.misses(np.array([1 << 40]))[0] == curve.num_cold == len(np.unique(keys))
    assert (np.diff(curve.misses(np.arange(6_000))) <= 0).all()


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 60))
def test_any_stream_in_any_pieces_has_the_distances_of_a_list(keys: list[int], piece: int) -> None:
    stack, seen, expected = StackDistances(), list[int](), []
    for key in keys:
        expected.append(float(seen[::-1].index(key)) if key in seen else np.inf)
        seen = [other for other in seen if other != key] + [key]
    parts = (np.array(keys[at : at + piece]) for at in range(0, len(keys), piece))
    assert [d for part in parts for d in stack.update(part, np.ones(len(part)))] == expected


@pytest.mark.slow
def test_misses_agree_with_ches_approximation() -> None:
    """Che, Tung, Wang (2002); without the first access of each row, which a cache that runs for ever has not."""
    num_rows, keys = 5_000, zipf(400_000, 5_000)
    places = np.arange(1.0, num_rows + 2) ** -0.05
    chances = np.diff(places) / (places[-1] - places[0])
    curve = curve_of(keys)
    for size in (50, 250, 1_000, 2_500):
        time = brentq(lambda t, size=size: (-np.expm1(-chances * t)).sum() - size, 1, 1e9)
        expected = (chances * np.exp(-chances * time)).sum()
        found = (curve.misses(np.array([size]))[0] - curve.num_cold) / (len(keys) - curve.num_cold)
        assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_a_tenth_of_the_rows_says_what_all_miss(share: float) -> None:
    keys, size = zipf(300_000, 100_000), round(share * 100_000)
    exact = curve_of(keys).miss_ratio(size)
    off = [abs(curve_of(keys, 0.1, seed).miss_ratio(size) - exact) for seed in range(5)]
    assert max(off) <= 0.02


def test_a_sample_stands_for_all_rows_and_has_those_that_are_looked_up_most() -> None:
    keys = zipf(100_000, 60_000)
    touched = find_rows(keys)
    assert np.array_equal(touched.keys[touched.numbers], keys)
    sample, others = sample_rows(touched, 0.01, 0), sample_rows(touched, 0.01, 1)
    num_taken = int((sample.rows > 0).sum())
    assert LEAST_OF_GROUP < num_taken < 0.5 * len(touched.keys) and sample.share == num_taken / len(touched.keys)
    assert sample.rows.sum() == pytest.approx(len(touched.keys))
    assert (sample.rows[np.argsort(-touched.counts)[:500]] == 1).all()
    assert ((touched.counts - 1) * sample.lookups).sum() == pytest.approx(len(keys) - len(touched.keys))
    assert not np.array_equal(sample.rows, others.rows)


@pytest.mark.parametrize("name", TRACES)
def test_a_sample_of_one_in_a_hundred_gives_no_ratio_that_cannot_be(name: str) -> None:
    keys = TRACES[name]()
    curve, sizes = curve_of(keys, 0.01), np.arange(0, 25_000, 50)
    ratios = curve.misses(sizes) / len(keys)
    assert ratios[0] == 1 and ratios.min() >= 0 and (np.diff(ratios) <= 0).all()
    assert curve.num_cold == pytest.approx(len(np.unique(keys)))
    assert curve.misses(np.array([1 << 40]))[0] == pytest.approx(curve.num_cold)


def test_few_rows_are_all_in_a_sample() -> None:
    keys = zipf(20_000, LEAST_OF_GROUP)
    whole, exact = curve_of(keys, 0.001), curve_of(keys)
    assert np.array_equal(whole.distances, exact.distances) and np.array_equal(whole.hits, exact.hits)
    assert whole.num_cold == exact.num_cold


def test_memory_grows_with_distinct_rows_and_not_with_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_distances, "CHUNK", 1 << 12)

    def peak(num_chunks: int) -> int:
        stack = StackDistances()
        tracemalloc.start()
        for number in range(num_chunks):
            stack.update(zipf(1 << 12, 1 << 10, number), np.ones(1 << 12))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(24) < 1.2 * peak(4)


def test_memory_of_a_curve_grows_with_distinct_distances_and_not_with_the_size_of_rows() -> None:
    keys = zipf(1 << 14, 1 << 10)

    def peak(units: int) -> int:
        tracemalloc.start()
        curve = measure_curve([keys], units_of=lambda rows: np.where(rows % 2, units, 1))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert curve.misses(np.array([units << 40])) == curve.num_cold == len(np.unique(keys))
        return found

    assert peak(1 << 22) < 1.5 * peak(3)


def test_accesses_come_sample_by_sample() -> None:
    trace = AccessTrace(
        num_rows=(4, 3), num_bags=3, indices=np.array([0, 3, 1, 2, 0, 1, 1]), offsets=np.array([0, 2, 2, 3, 4, 5, 7])
    )
    trace.check("here")
    parts = list(trace.in_order())
    assert [part.keys.tolist() for part in parts] == [[0, 3, 6, 4, 1, 5, 5]]
    assert parts[0].samples.tolist() == [0, 0, 0, 1, 2, 2, 2] and parts[0].tables.tolist() == [0, 0, 1, 1, 0, 1, 1]


def test_pieces_of_the_order_are_its_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.random.default_rng(0).integers(0, 9, (3, 50))
    ids = np.random.default_rng(1).integers(0, 10, lengths.sum())
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    trace = AccessTrace(num_rows=(10, 10, 10), num_bags=50, indices=ids, offsets=offsets)
    (whole,) = trace.in_order()
    monkeypatch.setattr("reference_models.data.traces.trace.CHUNK", 20)
    pieces = list(trace.in_order())
    assert len(pieces) > 10
    for member in range(3):
        assert np.array_equal(np.concatenate([piece[member] for piece in pieces]), whole[member])


def test_rows_are_counted_by_how_often_they_are_used() -> None:
    keys = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 70_000])
    assert reuse_histogram(keys) == (1, 1, 2, 1, *([0] * 12), 1)


def test_touched_rows_are_as_many_as_expected() -> None:
    mean, deviation = expect_touched(10_000, 1.05, 30_000)
    found = [len(np.unique(zipf(30_000, 10_000, seed))) for seed in range(10)]
    assert np.mean(found) == pytest.approx(mean, abs=3 * deviation)
    assert expect_touched(50, 0.0, 1)[0] == pytest.approx(1.0) and expect_touched(1, 1.0, 5)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("num_rows", [1, 1_000_003, (1 << 31) - 1, 1 << 31, (1 << 40) - 87])
def test_rows_of_ranks_differ_however_many_there_are(num_rows: int) -> None:
    ranks = np.unique(np.random.default_rng(0).integers(0, num_rows, 2_000))
    rows = scatter(ranks, num_rows)
    assert len(np.unique(rows)) == len(ranks) and rows.min() >= 0 and rows.max() < num_rows
    step = int(scatter(np.array([1]), num_rows)[0]) if num_rows > 1 else 0
    assert rows.tolist() == [rank * step % num_rows for rank in ranks.tolist()]


def test_rows_in_blocks_of_one_chance_are_touched_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = expect_touched(200_000, 1.05, 30_000)
    monkeypatch.setattr("reference_models.data.traces.sources._MOST_BLOCKS", 20_000)
    assert expect_touched(200_000, 1.05, 30_000) == pytest.approx(alone, rel=1e-5)


def entry(name: str, rows: int, **more: Any) -> TableEntry:
    return TableEntry(name=name, rows=rows, place="t.csv:1", **more)


def test_drawn_lookups_are_of_their_tables_sides_and_exponents() -> None:
    tables = (entry("u", 5_000, pooling=3.25, side="user", zipf_exponent=0.0), entry("i", 900, pooling=1.0))
    trace = draw_lookups(tables, 4_000, 5, 0)
    trace.check("drawn")
    lengths = np.diff(trace.offsets).reshape(2, 4_000, 5)
    assert not lengths[0, :, 1:].any() and (lengths[1] == 1).all() and {*lengths[0, :, 0].tolist()} == {3, 4}
    assert len(trace.rows_of(0)) / 4_000 == pytest.approx(3.25, abs=0.05)
    assert count_lookups(tables, 5) == 3.25 + 5
    counts = np.bincount(trace.rows_of(0), minlength=5_000)
    assert counts.max() < 15 and np.bincount(trace.rows_of(1)).max() > 1_000


def test_queries_of_several_samples_look_the_user_up_once() -> None:
    lengths = np.array([[2, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    trace = AccessTrace(
        num_rows=(9, 9),
        num_bags=5,
        indices=np.array([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4]),
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        tables=(TracedTable("u", 8, "user"), TracedTable("i", 12, "item")),
    )
    made = trace.with_queries(2)
    made.check("joined")
    assert (made.num_bags, made.samples_per_query) == (4, 2)
    assert (made.rows_of(0).tolist(), made.rows_of(1).tolist()) == ([0, 1, 3], [0, 1, 2, 3])
    assert np.diff(made.offsets).tolist() == [2, 0, 1, 0, 1, 1, 1, 1]
    assert (made.unit_bytes, made.row_units, made.num_units) == (4, (2, 3), 45)
    with pytest.raises(ValueError, match="5 samples are less than one query of 6"):
        trace.with_queries(6)


@pytest.mark.parametrize(
    ("row_bytes", "unit", "units"),
    [
        ((72, 128, 32), 8, (9, 16, 4)),
        ((64, 64, 64), 64, (1, 1, 1)),
        ((1, 1 << 22, 255), 1, (1, 1 << 22, 255)),
        ((64, None, 64), None, (1, 1, 1)),
    ],
)
def test_a_unit_is_the_largest_that_divides_all_rows(
    row_bytes: tuple[int | None, ...], unit: int | None, units: tuple[int, ...]
) -> None:
    tables = tuple(TracedTable(name, size) for name, size in zip("abc", row_bytes, strict=True))
    indices, offsets = np.zeros(3, np.int64), np.array([0, 3, 3, 3])
    trace = AccessTrace(num_rows=(1, 1, 1), num_bags=1, indices=indices, offsets=offsets, tables=tables)
    assert (trace.unit_bytes, trace.row_units) == (unit, units)


INDICES, LENGTHS = torch.tensor([3, 0, 1, 1, 2]), torch.tensor([[1, 2], [0, 2]])
OFFSETS = torch.tensor([0, 1, 3, 3, 5])


@pytest.mark.parametrize("ending", [".pt", ".pt.gz"])
def test_files_of_lookups_are_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "lookups.pt"
    torch.save((INDICES, OFFSETS, LENGTHS.int()), path)
    if ending == ".pt.gz":
        packed = path.with_name("lookups.pt.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    trace = read_lookups(path, PLENTY)
    assert (trace.num_rows, trace.num_bags) == ((4, 3), 2)
    assert trace.rows_of(1).tolist() == [1, 2]


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this must not run",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ((torch.tensor([3, 0, -1, 1, 2]), OFFSETS, LENGTHS), "table 0, lookup 2: row -1 is outside"),
        ((INDICES, torch.tensor([0, 3, 1, 3, 5]), LENGTHS), "table 0, bag 1: its offsets fall"),
        ((INDICES, torch.tensor([0, 1, 3, 3, 4]), LENGTHS), "offsets from 0 to 4, expected 0 to 5"),
        ((INDICES, OFFSETS, torch.tensor([[1, 2], [1, 1]])), "table 1, bag 0: length 1, expected"),
        ((INDICES, OFFSETS, torch.tensor([5])), "expected indices [lookups]"),
        ((INDICES, OFFSETS), "three tensors"),
        ((INDICES.float(), OFFSETS, LENGTHS), "whole numbers"),
        ((torch.tensor([1]).expand(5), OFFSETS, LENGTHS), "contiguous"),
        ((Evil(), OFFSETS, LENGTHS), "names '__builtin__.print', which is not loaded"),
        ((bytearray(8), OFFSETS, LENGTHS), "which is not loaded"),
        ((INDICES, OFFSETS, LENGTHS.to("meta")), "which is not loaded"),
        (([0] * 100_000, OFFSETS, LENGTHS), "more than 65,536"),
        ((torch.zeros(1 << 20).to_sparse(), OFFSETS, LENGTHS), "which is not loaded"),
    ],
)
def test_files_that_are_no_lookups_are_refused(
    content: tuple[object, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(content, tmp_path / "lookups.pt")
    with pytest.raises(DatasetError) as caught:
        read_lookups(tmp_path / "lookups.pt", PLENTY)
    assert said in str(caught.value) and "lookups.pt" in str(caught.value)
    assert capsys.readouterr().out == ""


def test_damaged_files_of_lookups_are_refused(tmp_path: Path) -> None:
    torch.save((INDICES, OFFSETS, LENGTHS), tmp_path / "whole.pt")
    content = (tmp_path / "whole.pt").read_bytes()
    packed = gzip.compress(content)
    damaged = {
        "empty.pt": b"",
        "words.pt": b"no tensors",
        "half.pt": content[: len(content) // 2],
        "half.gz": packed[:-20],
        "words.gz": b"no gzip",
        "flipped.gz": packed[:30] + b"\0\0\0\0" + packed[34:],
    }
    for name, damage in damaged.items():
        (tmp_path / name).write_bytes(damage)
        with pytest.raises(DatasetError, match=name):
            read_lookups(tmp_path / name, PLENTY)


def archive_of(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", compression) as written:
        for name, content in parts.items():
            written.writestr(name, content)
    return archive.getvalue()


def bombs() -> dict[str, bytes]:
    """Files of a few kilobytes that state gigabytes: by name."""
    made, legacy = io.BytesIO(), io.BytesIO()
    torch.save((INDICES, OFFSETS, LENGTHS), made)
    torch.save((INDICES, OFFSETS, LENGTHS), legacy, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(made) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    pickle = parts["archive/data.pkl"]
    huge = b"\x8a\x05" + (4 << 30).to_bytes(5, "little")  # LONG1 of 5 bytes
    of_pickle = {
        "size of a tensor": pickle.replace(b"K\x05\x85", huge + b"\x85", 1),
        "size of a storage": pickle.replace(b"K\x05t", huge + b"t", 1),
        "bytes": b"\x80\2cbuiltins\nbytearray\n" + huge + b"\x85R.",
        "memo": b"\x80\2]r\xff\xff\xff\x7f.",
    }
    assert all(each != pickle for each in of_pickle.values())
    return {
        "as before torch 1.6": legacy.getvalue(),
        "compressed": archive_of({**parts, "archive/data/0": bytes(1 << 24)}, zipfile.ZIP_DEFLATED),
        "many files": archive_of({f"archive/{number}": b"" for number in range(2_000)}),
        **{name: archive_of({**parts, "archive/data.pkl": each}) for name, each in of_pickle.items()},
    }


@pytest.mark.parametrize("bomb", bombs())
def test_no_small_file_of_lookups_takes_memory_by_what_it_says(bomb: str, tmp_path: Path) -> None:
    content = bombs()[bomb]
    assert len(content) < 200_000
    (tmp_path / "bomb.pt").write_bytes(content)
    (tmp_path / "bomb.pt.gz").write_bytes(gzip.compress(content))
    for name in ("bomb.pt", "bomb.pt.gz"):
        with bounded_memory(256 << 20), pytest.raises(DatasetError, match=name):
            read_lookups(tmp_path / name, PLENTY)


def test_a_profile_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "p.log"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DatasetError, match=r"p\.log: 1,099,511,627,776 bytes, expected .* at most 16,777,216 bytes"):
        read_profile(path)


def test_no_damage_is_more_than_a_refusal(tmp_path: Path) -> None:
    torch.save((INDICES, OFFSETS, LENGTHS), tmp_path / "whole.pt")
    content, generator = (tmp_path / "whole.pt").read_bytes(), np.random.default_rng(0)
    path = tmp_path / "damaged.pt"
    for number in range(300):
        damaged = bytearray(content)
        start = len(content) - 600 if number % 2 else 0  # the directory of the archive is at its end
        for at in generator.integers(start, len(content), 1 + number % 4):
            damaged[at] = generator.integers(256)
        path.write_bytes(damaged)
        with suppress(DatasetError, MemoryError):
            read_lookups(path, PLENTY).check("still a trace")


@pytest.mark.parametrize("ending", [".pt", ".gz"])
def test_files_above_the_memory_are_refused_before_they_are_read(ending: str, tmp_path: Path) -> None:
    torch.save((torch.zeros(100_000, dtype=torch.int64), OFFSETS, LENGTHS), tmp_path / "large.pt")
    (tmp_path / "large.gz").write_bytes(gzip.compress((tmp_path / "large.pt").read_bytes()))
    with pytest.raises(MemoryError):
        read_lookups(tmp_path / f"large{ending}", 1_000_000)


def test_a_profile_is_reproduced(tmp_path: Path) -> None:
    path = tmp_path / "dist_emb_0.log"
    path.write_text(f"{', '.join(map(str, range(3_000)))}\n0, 1, 10, 100, 2000\n0.05, 0.45, 0.75, 0.95, 1.0\n")
    trace = generate_reuse(*read_profile(path), 100_000, 7)
    assert trace.num_rows == (3_000,) and trace.num_bags == 100_000
    curve = curve_of(trace.indices[50_000:])
    # Distance d of a profile counts the row itself. Once 3,000 rows are in use, new ones are the oldest.
    for size, expected in ((1, 0.6), (9, 0.6), (10, 0.3), (100, 0.1)):
        assert curve.miss_ratio(size) == pytest.approx(expected, abs=0.02)
    assert np.array_equal(generate_reuse(*read_profile(path), 1_000, 7).indices, trace.indices[:1_000])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("0, 1\n0, 1\n", "three lines"),
        ("0, x\n0, 1\n.5, 1", "three lines"),
        ("0, 1\n1, 0\n.5, 1", ":2: expected rising"),
        ("0, 1\n0, 3\n.5, 1", ":2: distance 3, but line 1 has 2"),
        ("0, 1\n0, 1\n.5, .7", ":3: expected shares"),
        ("0, 1\n0, nan\n.5, 1", ":2: expected rising"),
        ("0, 1\n0, 1\n.5", ":2: expected rising"),
    ],
)
def test_what_is_no_profile_is_refused(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "p.log").write_text(content)
    with pytest.raises(DatasetError) as caught:
        read_profile(tmp_path / "p.log")
    assert said in str(caught.value)
