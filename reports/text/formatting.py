"""Formats numbers and texts for reports: digits and units are chosen here and nowhere else.

Every function takes None for "not known" and returns MISSING for it; missing values are never printed as 0.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rules.logs.text import plural as plural
from rules.logs.text import printable as escape_controls

MISSING = "—"
MAX_TEXT = 400
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T")
_SMALL = ("", "m", "µ", "n", "p")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeUnit:
    """Time unit for a whole table column or axis, so that its numbers can be compared by eye."""

    name: str
    seconds: float
    digits: int

    def of(self, value_s: float | None) -> float | None:
        """Return a time given in seconds as a number in this unit; None for None."""
        return None if value_s is None else value_s / self.seconds

    def number(self, value_s: float | None) -> str:
        """Format a time given in seconds as a number in this unit, without the unit, for a column whose heading has
        it."""
        return _decimal(self.of(value_s), self.digits)

    def text(self, value_s: float | None) -> str:
        number = self.number(value_s)
        return number if number == MISSING else f"{number} {self.name}"


MICROSECONDS = TimeUnit(name="µs", seconds=1e-6, digits=1)
MILLISECONDS = TimeUnit(name="ms", seconds=1e-3, digits=1)
SECONDS = TimeUnit(name="s", seconds=1.0, digits=2)
MINUTES = TimeUnit(name="min", seconds=60.0, digits=3)
HOURS = TimeUnit(name="h", seconds=3600.0, digits=3)
_CODE = re.compile(r"(?:.*/)?(?P<file>[^/]+\.py:\w+)(?P<digest>@[0-9a-f]{12})[0-9a-f]{52}", re.DOTALL)


def time_unit(values_s: Iterable[float | None]) -> TimeUnit:
    """Return the time unit of a table column by its largest value: µs, ms from 1 ms, s from 1 s, min from 2 min, h
    from 3 h."""
    finite = [abs(value) for value in values_s if value is not None and math.isfinite(value)]
    largest = max(finite, default=1.0)
    if 0.0 < largest < 1e-3:
        return MICROSECONDS
    if largest < 1.0:
        return MILLISECONDS
    if largest < 120.0:
        return SECONDS
    return MINUTES if largest < 3 * 3600.0 else HOURS


def duration(value_s: float | None) -> str:
    """Format one duration in seconds, in a unit chosen for it: '850.0 ms', '41.70 s', '3.799 min', '2.310 h'."""
    return time_unit([value_s]).text(value_s)


def rough_duration(value_s: float) -> str:
    """Format a duration in seconds roughly: '50 s', '12 min', '3.5 h'."""
    if value_s < 100:
        return f"{round(value_s)} s"
    return f"{round(value_s / 60)} min" if value_s < 100 * 60 else f"{value_s / 3600:.1f} h"


def count(value: float | None) -> str:
    """Format a whole number with thousands separated: '4,195,197,692'."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{round(value):,}".replace("-", "−")


def quality(value: float | None) -> str:
    """Format a model quality (such as AUC) with five decimals, as targets are written: '0.80275'."""
    return _decimal(value, 5)


def converged(value: float | None, unit: str) -> str:
    """Format the epochs or samples to converge, by the benchmark's unit: '0.650', '319,488'."""
    return count(value) if unit == "samples" else epochs(value)


def epochs(value: float | None) -> str:
    """Format a number of epochs with three decimals: '0.650'."""
    return _decimal(value, 3)


def ratio(value: float | None) -> str:
    """Format a ratio with three decimals: '1.004×'; below 0.1 with three significant digits: '0.00648×'."""
    is_small = value is not None and 0 < abs(value) < 0.1
    text = _decimal(value, min(2 - math.floor(math.log10(abs(value))), 9) if is_small and value else 3)
    return text if text == MISSING else f"{text}×"


def percent(fraction: float | None, digits: int = 1) -> str:
    """Format a fraction as percent: 0.043 is '4.3 %'. A small value that is not zero stays visible: '<0.1 %'."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    smallest = 10.0**-digits
    if 0 < fraction * 100 < smallest / 2:
        return f"<{smallest:.{digits}f} %"
    return f"{_fixed(fraction * 100, digits)} %"


def throughput(value: float | None) -> str:
    """Format samples/s for a table column, without the unit: three significant digits below 100, else a whole
    number."""
    if value is None or not math.isfinite(value):
        return MISSING
    return count(value) if abs(value) >= 100 else f"{value:.3g}"


def throughput_text(value: float | None) -> str:
    """Format samples per second for running text: '21.4 M samples/s'."""
    text = si(value)
    return text if text == MISSING else f"{text} samples/s"


def si(value: float | None) -> str:
    """Format a number with three significant digits and a decimal prefix: '21.4 M', '850'."""
    if value is None or not math.isfinite(value):
        return MISSING
    scaled, step = abs(value), 0
    while scaled >= 999.5 and step < len(_DECIMAL) - 1:
        scaled, step = scaled / 1000, step + 1
    digits = 0 if scaled >= 100 or (step == 0 and float(scaled).is_integer()) else 1 if scaled >= 10 else 2
    return f"{_fixed(math.copysign(scaled, value), digits)} {_DECIMAL[step]}".rstrip()


@dataclass(frozen=True, kw_only=True, slots=True)
class DecimalUnit:
    """SI prefix (such as k or M) for all numbers of a table column."""

    name: str
    factor: float


def decimal_unit(values: Iterable[float | None]) -> DecimalUnit:
    """Return the SI prefix for a table column, from pico to tera, by the column's largest finite value."""
    largest = max((abs(each) for each in values if each is not None and math.isfinite(each)), default=0.0)
    step = 0
    while 0 < largest < 0.9995 * 1000.0**step and -step < len(_SMALL) - 1:
        step -= 1
    if step < 0:
        return DecimalUnit(name=_SMALL[-step], factor=1000.0**step)
    while largest >= 999.5 * 1000**step and step < len(_DECIMAL) - 1:
        step += 1
    return DecimalUnit(name=_DECIMAL[step], factor=1000.0**step)


def significant(value: float | None) -> str:
    """Format a number with three significant digits, without exponent, at most nine decimals: '0.00248', '21.4',
    '1,970'."""
    if value is None or not math.isfinite(value):
        return MISSING
    digits = 0 if value == 0 else max(0, min(9, 2 - math.floor(math.log10(abs(value)))))
    return _fixed(value, digits)


def with_unit(number: str, unit: str) -> str:
    """Join a number, formatted with its SI prefix, and the number's unit: '2.02 GB/s', '1.23 k queries/s'."""
    return f"{number}{unit}" if number[-1].isalpha() and unit[0].isupper() else f"{number} {unit}"


def num_bytes(value: float | None) -> str:
    """Format a number of bytes with a binary unit: '512 B', '1.25 GiB'."""
    if value is None or not math.isfinite(value):
        return MISSING
    scaled, step = float(value), 0
    while abs(scaled) >= 1023.995 and step < len(_BINARY) - 1:
        scaled, step = scaled / 1024, step + 1
    return f"{scaled:.0f} B" if step == 0 else f"{_fixed(scaled, 2)} {_BINARY[step]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteUnit:
    """Binary unit of bytes (such as MiB) for all numbers of a table column."""

    name: str
    num_bytes: int

    def number(self, value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return MISSING
        return _fixed(value / self.num_bytes, 0 if self.num_bytes == 1 else 2)


def byte_unit(values: Iterable[float | None]) -> ByteUnit:
    """Return the binary unit of bytes for a table column, by the column's largest finite value."""
    largest = max((value for value in values if value is not None and math.isfinite(value)), default=0.0)
    step = 0
    while largest >= 1024 ** (step + 1) and step < len(_BINARY) - 1:
        step += 1
    return ByteUnit(name=_BINARY[step], num_bytes=1024**step)


def capital(text: str) -> str:
    """Return a text with its first letter made a capital."""
    return text[:1].upper() + text[1:]


def learning_rate(value: float | None) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{value:.6g}"


def interval(low: str, high: str) -> str:
    """Join the formatted ends of an interval: '3.61 – 3.98'."""
    return f"{low} – {high}"


def utc(time_ms: float | None) -> str:
    """Format a time in milliseconds since 1970: '2026-11-21 02:57:17 UTC'; MISSING outside the years 1 to 9999."""
    if time_ms is None or not math.isfinite(time_ms):
        return MISSING
    try:
        return datetime.fromtimestamp(time_ms / 1e3, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return MISSING


def moment_of(text: str | None) -> datetime | None:
    """Parse an ISO 8601 time with its offset from UTC; None for any other text."""
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def epoch_ms(text: str | None) -> float | None:
    """Parse an ISO 8601 time with its offset from UTC into milliseconds since 1970; None for any other text."""
    moment = moment_of(text)
    return None if moment is None else moment.timestamp() * 1e3


def short_digest(digest: str | None) -> str:
    """Return the first 12 characters of a hexadecimal digest, such as a SHA-256."""
    return MISSING if not digest else printable(digest)[:12]


def brief_code(value: str) -> str:
    """Return a reference to code in a file, 'path/mine.py:Mine@<sha256>', in short: without the folder, and with only
    the first characters of the digest. Any other text is returned unchanged."""
    match = _CODE.fullmatch(value)
    return value if match is None else match["file"] + match["digest"]


def distinct_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels that differ from each other: a repeated one gets a number, as in 'base (2)'."""
    found: dict[str, None] = {}
    for label in labels:
        number, distinct = 1, label
        while distinct in found:
            number += 1
            distinct = f"{label} ({number})"
        found[distinct] = None
    return tuple(found)


def names(labels: Sequence[str], most: int = 3) -> str:
    """Join labels, at most `most`: 'a', 'a, b', or 'a, b, c and 4 more'."""
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def printable(value: object, max_chars: int = MAX_TEXT) -> str:
    """Return text from a log or file as one visible line, safe to print.

    Control, format and bidirectional characters become escapes such as '\\u202e', white space becomes one blank, and
    text longer than `max_chars` is cut, with the number of missing characters.
    """
    if value is None:
        return MISSING
    text = value if isinstance(value, str) else str(value)
    if len(text) <= max_chars and text.isprintable() and "  " not in text and text == text.strip(" "):
        return text
    shown = escape_controls(" ".join(text[: max_chars * 4].split()))
    hidden = len(text) - max_chars
    if len(shown) > max_chars:
        return f"{shown[:max_chars].rstrip()}… (+{max(hidden, 1):,} characters)"
    return shown


def _decimal(value: float | None, digits: int) -> str:
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _fixed(value, digits)


def _fixed(value: float, digits: int) -> str:
    """Format a number with fixed decimals, separated thousands, a real minus sign, and no '-0.00'."""
    text = f"{value:,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")
