"""Criteo-like text of any size, and the per-line parser that everything faster is held against."""

import math
import re
from dataclasses import dataclass

import numpy as np

_INTEGER = re.compile(rb"-?[0-9]+\Z")
_CATEGORY = re.compile(rb"[0-9a-fA-F]{1,8}\Z")
_TEMPLATES = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One well-formed line: label, 13 integers, 26 category values."""

    label: int
    integers: tuple[int, ...]
    categories: tuple[int, ...]

    @property
    def dense(self) -> tuple[float, ...]:
        return tuple(math.log(max(0, value) + 1) for value in self.integers)


def parse_line(line: bytes) -> Line | None:
    """One line without its line feed, None if it is malformed; missing fields are 0."""
    fields = line.removesuffix(b"\r").split(b"\t")
    if len(fields) != 40 or fields[0] not in (b"0", b"1"):
        return None
    if not all(not field or _INTEGER.match(field) for field in fields[1:14]):
        return None
    if not all(not field or _CATEGORY.match(field) for field in fields[14:]):
        return None
    integers = tuple(int(field or b"0") for field in fields[1:14])
    if not all(-(2**31) <= value < 2**31 for value in integers):
        return None
    return Line(
        label=int(fields[0]), integers=integers, categories=tuple(int(field or b"0", 16) for field in fields[14:])
    )


def make_text(num_rows: int, seed: int = 0, *, exponent: float = 4.0) -> bytes:
    """`num_rows` well-formed lines with missing fields, negative integers and skewed categories.

    Category values are spread over 32 bits; a larger `exponent` repeats them more.
    """
    random = np.random.default_rng(seed)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    integers = random.geometric(0.02, (_TEMPLATES, 13)) - 3
    shown = random.random((_TEMPLATES, 13)) > 0.15
    heads = [
        b"%d" % (random.random() < 0.25)
        + b"".join(b"\t%d" % value if is_shown else b"\t" for value, is_shown in zip(row, mask, strict=True))
        for row, mask in zip(integers.tolist(), shown.tolist(), strict=True)
    ]
    lines = []
    for start in range(0, num_rows, _TEMPLATES):
        count = min(_TEMPLATES, num_rows - start)
        ranks = (random.random((count, 26)) ** exponent * 2**32).astype(np.uint64)
        octets = (ranks * np.uint64(2654435761) & np.uint64(0xFFFFFFFF)).astype(">u4").view(np.uint8)
        tails = np.empty((count, 26, 9), np.uint8)
        tails[:, :, 0] = ord("\t")
        tails[:, :, 1::2] = digits[octets.reshape(count, 26, 4) >> 4]
        tails[:, :, 2::2] = digits[octets.reshape(count, 26, 4) & 15]
        flat = tails.reshape(count, -1)
        gone = random.random(count) < 0.4
        for row in range(count):
            tail = flat[row].tobytes()
            lines.append(heads[row] + (tail[:171] + b"\t" + tail[180:] if gone[row] else tail))
    return b"\n".join(lines) + b"\n"
