"""Parsing Criteo text: whatever a simple per-line parser makes of it, and no line more or less."""

import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from criteo_builder import make_text, parse_line
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference_models.data.criteo import parse
from reference_models.data.criteo.parse import ParsedRows, parse_block, transform_integers

INTEGERS = st.one_of(
    st.just(b""),
    st.integers(-3, 200).map(lambda value: b"%d" % value),
    st.integers(-(2**31), 2**31 - 1).map(lambda value: b"%d" % value),
    st.integers(-99999999, 99999999).map(lambda value: b"%030d" % value),
)
CATEGORIES = st.one_of(
    st.just(b""),
    st.integers(0, 2**32 - 1).map(lambda value: b"%08x" % value),
    st.integers(0, 2**32 - 1).map(lambda value: b"%X" % value),
)
BAD_FIELDS = st.sampled_from(
    [b"2147483648", b"-2147483649", b"9" * 16, b"1" * 17, b"9" * 40, b"-", b"--1", b"+1", b"1.5", b" 1", b"1 ",
     b"0x10", b"nan", b"\x00", b"1\x002", b"\xff\xfe", b"caf\xc3\xa9", b"123456789", b"0000000g", b"@", b"`", b":",
     b"/", b"\x13\x13\x13\x13\x13\x13\x13\x13", b"G", b'"1"', b"\r", b"1\r2", b"00", b"-0"]
)  # fmt: skip
FIELDS = st.tuples(st.sampled_from([b"0", b"1"]), *[INTEGERS] * 13, *[CATEGORIES] * 26).map(list)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Mostly well-formed lines, with every kind of damage mixed in."""
    fields = draw(FIELDS)
    kind = draw(st.integers(0, 9))
    if kind == 0:
        fields[draw(st.integers(0, 39))] = draw(BAD_FIELDS)
    elif kind == 1:
        fields[draw(st.integers(0, 39))] = draw(st.binary(max_size=12)).replace(b"\n", b"")
    elif kind == 2:
        fields = fields[: draw(st.integers(0, 39))]
    elif kind == 3:
        fields += draw(st.lists(INTEGERS, min_size=1, max_size=3))
    return b"\t".join(fields) + draw(st.sampled_from([b"", b"", b"", b"\r"]))


def assert_equals_per_line(block: bytes, rows: ParsedRows) -> None:
    texts = block[:-1].split(b"\n")
    wanted = [parse_line(text) for text in texts]
    good = [line for line in wanted if line is not None]
    assert rows.num_lines == len(texts)
    assert rows.num_malformed == len(texts) - len(good)
    assert [item.line for item in rows.malformed] == [n for n, line in enumerate(wanted) if line is None][:10]
    assert rows.labels.tolist() == [line.label for line in good]
    assert rows.integers.tolist() == [list(line.integers) for line in good]
    assert rows.categories.tolist() == [list(line.categories) for line in good]
    if good:
        dense = np.array([line.dense for line in good], np.float32)
        np.testing.assert_array_equal(transform_integers(rows.integers), dense)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(texts=st.lists(lines(), min_size=1, max_size=6))
@example(texts=[b""])
@example(texts=[b"", b"1" + b"\t" * 39, b"\r", b"0" + b"\t" * 39 + b"\r"])
@example(texts=[b"\t" * 39])
@example(texts=[b"1" + b"\t-" * 39])
@example(texts=[b"0" + b"\t" * 39 + b"\r1" + b"\t" * 39, b"\r" + b"0" + b"\t" * 39, b"0" + b"\t" * 39 + b"\r\r"])
def test_a_block_holds_what_a_per_line_parser_finds(texts: list[bytes]) -> None:
    block = b"\n".join(texts) + b"\n"
    assert_equals_per_line(block, parse_block(block))


@settings(max_examples=examples(200), deadline=None)
@given(content=st.binary(max_size=300))
def test_any_bytes_at_all_are_counted_and_never_crash(content: bytes) -> None:
    block = content + b"\n"
    assert_equals_per_line(block, parse_block(block))


@pytest.mark.parametrize("column", [0, 1, 13, 14, 39])
def test_every_byte_before_or_after_a_digit_is_judged_as_by_the_per_line_parser(column: int) -> None:
    for byte in set(range(256)) - {ord("\n")}:
        for field in (b"%c", b"1%c", b"%c1"):
            fields = [b"1"] * 40
            fields[column] = field % byte
            block = b"\t".join(fields) + b"\n"
            assert_equals_per_line(block, parse_block(block))


def test_very_long_integers_are_judged_by_their_value() -> None:
    fields = [b"1", b"0" * 5000 + b"7", b"-" + b"0" * 5000 + b"7", *[b""] * 37]
    rows = parse_block(b"\t".join(fields) + b"\n" + b"\t".join([b"1", b"7" * 5000, *[b""] * 38]) + b"\n")
    assert rows.integers[:, :3].tolist() == [[7, -7, 0]]
    assert [item.line for item in rows.malformed] == [1]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_well_formed_lines_are_read_without_looking_at_each(line_end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "describe_fault", lambda line: pytest.fail(f"looked at {line!r}"))
    assert len(parse_block(make_text(300).replace(b"\n", line_end)).labels) == 300


@pytest.mark.slow
def test_ten_thousand_generated_lines_equal_the_per_line_parser() -> None:
    block = make_text(10_000, seed=3)
    rows = parse_block(block)
    assert rows.num_malformed == 0
    assert_equals_per_line(block, rows)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({0: b"2"}, "column 1 is '2', expected a label, 0 or 1"),
        ({0: b""}, "column 1 is '', expected a label, 0 or 1"),
        ({5: b"99999999999"}, "column 6 is '99999999999', expected an integer of 32 bits or nothing"),
        ({5: b"1\x00"}, r"column 6 is '1\x00', expected an integer of 32 bits or nothing"),
        ({39: b"xyz"}, "column 40 is 'xyz', expected up to 8 hexadecimal digits or nothing"),
        ({20: b"f" * 40}, f"column 21 is '{'f' * 24}'…, expected up to 8 hexadecimal digits or nothing"),
    ],
)
def test_a_malformed_line_is_named_with_its_reason(fields: dict[int, bytes], reason: str) -> None:
    line = [b"1", *[b"5"] * 13, *[b"ab"] * 26]
    good = b"\t".join(line)
    for column, text in fields.items():
        line[column] = text
    rows = parse_block(good + b"\n" + b"\t".join(line) + b"\n" + good + b"\n")
    assert [(item.line, item.reason) for item in rows.malformed] == [(1, reason)]
    assert len(rows.labels) == 2


def test_wrong_column_counts_are_named() -> None:
    rows = parse_block(b"1\t2\n" + b"\t".join([b"1"] * 41) + b"\n")
    assert [item.reason for item in rows.malformed] == ["2 columns, expected 40", "41 columns, expected 40"]


def test_logarithms_are_correctly_rounded_beyond_the_table() -> None:
    values = np.array([-5, 0, 1, 65534, 65535, 65536, 10**6, 2**31 - 1], np.int32)
    wanted = np.log(np.maximum(values, 0).astype(np.float64) + 1).astype(np.float32)
    np.testing.assert_array_equal(transform_integers(values), wanted)


@pytest.mark.parametrize("flood", [b"\n" * 2**18, b"\r" * 2**18 + b"\n", (b"\r" * 41 + b"\n") * 6000])
def test_a_flood_of_line_ends_takes_no_memory_to_refuse(flood: bytes) -> None:
    pool = pa.default_memory_pool()
    peak_before_bytes = pool.max_memory()
    rows = parse_block(flood)
    assert rows.num_malformed == rows.num_lines == flood.count(b"\n")
    assert pool.max_memory() <= max(peak_before_bytes, 2**26)


@pytest.mark.slow
def test_a_ctrl_c_while_parsing_is_never_lost() -> None:
    block = make_text(500)
    main = threading.main_thread().ident
    assert main is not None
    for round_ in range(20):
        sent = threading.Event()

        def interrupt(delay_s: float, sent: threading.Event) -> None:
            time.sleep(delay_s)
            signal.pthread_kill(main, signal.SIGINT)
            sent.set()

        thread = threading.Thread(target=interrupt, args=(0.01 + 0.0003 * round_, sent))
        try:
            with pytest.raises(KeyboardInterrupt):
                thread.start()
                while not sent.is_set():
                    parse_block(block)
                time.sleep(0.5)
        finally:
            thread.join()
