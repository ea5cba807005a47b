"""Make random bits by counter: stream s of sample k is a hash of (seed, k, s), so samples may come in any order.

The hash is the finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", 2014) in wrapping 64-bit integer arithmetic, which is the same on every machine.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FACTOR_1, _FACTOR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)

FIRST_COUNTER = {"train": 0, "eval": 1 << 40}
"""Counter (number, the hash's input) of the first sample of each split. A split has at most 2**40 samples, so that no
counter is in both splits."""
MAX_SPLIT_SAMPLES = 1 << 40


def mix(words: Words, scratch: Words) -> Words:
    """Hash the 64-bit `words` in place, element by element, and return them; `scratch` is memory of their shape."""
    np.right_shift(words, _SHIFT_1, out=scratch)
    np.bitwise_xor(words, scratch, out=words)
    np.multiply(words, _FACTOR_1, out=words)
    np.right_shift(words, _SHIFT_2, out=scratch)
    np.bitwise_xor(words, scratch, out=words)
    np.multiply(words, _FACTOR_2, out=words)
    np.right_shift(words, _SHIFT_3, out=scratch)
    return np.bitwise_xor(words, scratch, out=words)


def derive_key(*parts: int) -> int:
    """Return the 64-bit key of a stream of random words, hashed from several integers, such as a seed and a table's
    number."""
    key = 0
    for part in parts:
        word = np.array([(key + (part + 1) * _GOLDEN) & _MASK], dtype=np.uint64)
        key = int(mix(word, np.empty_like(word))[0])
    return key


def hash_range(key: int, start: int, stop: int) -> Words:
    """Return the random 64-bit words (hashes) of the counters start to stop - 1 under `key`: uint64 [stop -
    start]."""
    words = counters(key, start, stop, 1)
    return mix(words, np.empty_like(words))


def counters(key: int, start: int, stop: int, num_streams: int) -> Words:
    """Return the unhashed 64-bit words of random stream 0 for samples start to stop - 1: uint64 [stop - start].
    Adding `stream_offset(s)` to each word gives the words of stream s."""
    words = np.arange(start, stop, dtype=np.uint64)
    np.multiply(words, np.uint64(num_streams * _GOLDEN & _MASK), out=words)
    return np.add(words, np.uint64(key), out=words)


def stream_offset(stream: int) -> np.uint64:
    return np.uint64(stream * _GOLDEN & _MASK)
