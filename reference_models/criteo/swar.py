"""Decimal and hexadecimal digits of many short fields at once: eight characters are one 64-bit word.

A word is loaded so that its highest byte is the field's last character (little-endian). The arithmetic is the
well-known "SIMD within a register"; it replaces a Python or per-character loop, and validates as it converts.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
WORD_BYTES: Final = 8


def _each(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101010101010101)


_ONE, _NIBBLE, _HIGH, _ZERO, _SIX, _BIT4 = _each(1), _each(0x0F), _each(0xF0), _each(0x30), _each(6), _each(0x10)
_U4, _U6, _U8, _U16, _U32 = (np.uint64(n) for n in (4, 6, 8, 16, 32))


def load_words(buffer: bytes | bytearray, ends: NDArray[np.int64]) -> Words:
    """The eight bytes before each of `ends`, as one word each. `ends` must be at least 8."""
    words = np.ndarray((len(buffer) - WORD_BYTES + 1,), np.dtype("<u8"), buffer=buffer, strides=(1,))
    return words[ends - WORD_BYTES]


def pad_with_zeros(words: Words, lengths: NDArray[np.int64]) -> Words:
    """Replace what precedes a field shorter than eight characters by the digit 0."""
    short = lengths < WORD_BYTES
    if short.any():
        # A shift by all 64 bits is undefined, and an empty field is all padding.
        shifts = (_U8 * np.minimum(WORD_BYTES - lengths[short], WORD_BYTES - 1).astype(np.uint64)).astype(np.uint64)
        kept = (words[short] >> shifts) << shifts
        filled = kept | (_ZERO & ((np.uint64(1) << shifts) - np.uint64(1)))
        words[short] = np.where(lengths[short] <= 0, _ZERO, filled)
    return words


def parse_decimal(words: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Values 0 to 99,999,999 of eight decimal digits each, and which words hold anything else."""
    digits = words ^ _ZERO
    bad = ((digits | (digits + _SIX)) & _HIGH) != 0
    pairs = (digits * np.uint64(10 * 256 + 1)) >> _U8 & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100 * 65536 + 1)) >> _U16 & np.uint64(0x0000FFFF0000FFFF)
    return ((fours * np.uint64((10000 << 32) + 1)) >> _U32).astype(np.int64), bad


def parse_hexadecimal(words: Words) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Values of eight hexadecimal digits each, either case, and which words hold anything else."""
    letter = (words >> _U6) & _ONE
    nibbles = (words & _NIBBLE) + letter * np.uint64(9)
    # High nibble: 3 for digits, 4 or 6 for letters. Value: below 10 for digits, 10 to 15 for letters.
    wrong = ((words & _HIGH) | (letter << np.uint64(5))) ^ (_ZERO + letter * np.uint64(0x30))
    wrong |= ((nibbles + _SIX) & _BIT4) ^ (letter << _U4)
    wrong |= nibbles & _BIT4
    packed = ((nibbles << _U4) | (nibbles >> _U8)) & np.uint64(0x00FF00FF00FF00FF)
    packed = ((packed << _U8) | (packed >> _U16)) & np.uint64(0x0000FFFF0000FFFF)
    packed = (packed << _U16) | (packed >> _U32)
    return packed.astype(np.uint32), wrong != 0
