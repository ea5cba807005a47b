"""What the reports print for numbers and for hostile names."""

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.text import formatting as f


@pytest.mark.parametrize(
    ("value_s", "expected"),
    [
        (None, "—"), (0.0, "0.0 ms"), (0.85, "850.0 ms"), (1.0, "1.00 s"), (41.704, "41.70 s"),
        (227.94, "3.799 min"), (9_000.0, "150.000 min"), (86_400.0, "24.000 h"), (math.inf, "∞ s"),
    ],
)  # fmt: skip
def test_duration(value_s: float | None, expected: str) -> None:
    assert f.duration(value_s) == expected


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([624.0, 3420.0], "k", ["0.624", "3.42"]), ([1.0, 999.0], "", ["1.00", "999"]),
        ([4.06e-4, 4.33e-4], "µ", ["406", "433"]), ([8.56e-8], "n", ["85.6"]), ([0.0], "", ["0"]),
        ([2e15, math.nan], "T", ["2,000", "—"]), ([6.4e-15], "p", ["0.00640"]),
    ],
)  # fmt: skip
def test_a_column_has_one_decimal_prefix(values: list[float], name: str, expected: list[str]) -> None:
    prefix = f.decimal_unit(values)
    assert prefix.name == name
    assert [f.significant(value / prefix.factor) for value in values] == expected


def test_a_column_has_one_unit() -> None:
    unit = f.time_unit([0.5, None, 240.0, math.inf])
    assert [unit.number(value) for value in (0.5, None, 240.0, math.inf)] == ["0.008", "—", "4.000", "∞"]
    assert unit.text(240.0) == "4.000 min"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f.count(4_195_197_692), "4,195,197,692"), (f.count(None), "—"), (f.count(-3), "−3"),
        (f.quality(0.80275), "0.80275"), (f.quality(math.nan), "—"), (f.epochs(0.65), "0.650"),
        (f.ratio(1.00409), "1.004×"), (f.ratio(None), "—"),
        (f.ratio(0.0064768), "0.00648×"), (f.ratio(0.0), "0.000×"),
        (f.percent(0.0741), "7.4 %"), (f.percent(0.0), "0.0 %"), (f.percent(0.0002), "<0.1 %"),
        (f.percent(None), "—"),
        (f.si(21_431_000), "21.4 M"), (f.si(850), "850"), (f.si(999_600), "1.00 M"), (f.si(3), "3"),
        (f.si(-0.0), "0"),
        (f.throughput(21_431_000.4), "21,431,000"), (f.throughput(12.345), "12.3"),
        (f.throughput_text(21_431_000), "21.4 M samples/s"), (f.throughput_text(None), "—"),
        (f.num_bytes(512), "512 B"), (f.num_bytes(3 * 2**30), "3.00 GiB"), (f.num_bytes(None), "—"),
        (f.learning_rate(0.004), "0.004"), (f.interval("1", "2"), "1 – 2"),
        (f.utc(0.0), "1970-01-01 00:00:00 UTC"), (f.utc(1e300), "—"), (f.utc(None), "—"),
        (f.utc(f.epoch_ms("2026-11-21T03:00:00+01:00")), "2026-11-21 02:00:00 UTC"),
        (f.utc(f.epoch_ms("2026-11-21T03:00:00")), "—"), (f.utc(f.epoch_ms("yesterday")), "—"),
        (f.short_digest("ab" * 32), "abababababab"), (f.short_digest(None), "—"),
        (f.plural(1, "run"), "1 run"), (f.plural(1200, "run"), "1,200 runs"),
    ],
)  # fmt: skip
def test_numbers(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("node\u202egnp", "node\\u202egnp"),
        ("a\x00b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("a\n\tb", "a b"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ud800", "\\ud800"),
        ("Café 東京 é", "Café 東京 é"),
        (8, "8"),
    ],
)
def test_names_from_logs_show_what_they_hide(given_text: object, expected: str) -> None:
    assert f.printable(given_text) == expected


def test_long_names_are_cut_and_say_so() -> None:
    assert f.printable("x" * 10_000, 50) == "x" * 50 + "… (+9,950 characters)"


@given(st.text(st.characters(), max_size=1000), st.integers(1, 200))
def test_printable_is_one_visible_line_of_bounded_length(text: str, max_chars: int) -> None:
    shown = f.printable(text, max_chars)
    assert len(shown) <= max_chars + 30
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0.2, "0 s"), (50.4, "50 s"), (99.0, "99 s"), (100.0, "2 min"), (725.0, "12 min"), (12_600.0, "3.5 h")],
)
def test_a_rough_duration_has_no_more_digits_than_an_estimate(value_s: float, text: str) -> None:
    assert f.rough_duration(value_s) == text
