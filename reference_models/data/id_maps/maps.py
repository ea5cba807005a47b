"""How each kind of [id_map] gives the ids of one table their rows: int32 [ids, k], the k rows whose sum is meant."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from reference_models.data.id_maps.clusters import cluster

IdMap = NDArray[np.int32]
MIN_SEEN = 6
"""Ids that were seen less often have embeddings that say little of them: they are hashed."""
_KNUTH = np.uint64(2_654_435_761)
_WORD = np.uint64(0xFFFF_FFFF)


def hash_ids(ids: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Return Knuth's multiplicative hash of each id, of 32 bits, modulo `num_rows`."""
    return (((ids.astype(np.uint64) * _KNUTH) & _WORD) % np.uint64(num_rows)).astype(np.int64)


def map_by_hash(num_ids: int, num_rows: int) -> IdMap:
    """Give each id the row of its hash."""
    return _of_rows(hash_ids(np.arange(num_ids), num_rows))


def map_by_quotient(num_ids: int, num_rows: int) -> IdMap:
    """Give each id a row of its quotient and one of its remainder (Shi et al. 2019), the two of each id a pair of its
    own.

    The divisor is the least with which the rows of both fit, so that as few ids as possible share a quotient. Where
    none does, ids are first hashed to as many numbers as half of the rows make pairs with the other half.
    """
    ids = np.arange(num_ids)
    if (divisor := _least_divisor(num_ids, num_rows)) is None:
        divisor = num_rows - num_rows // 2
        ids = hash_ids(ids, divisor * (num_rows // 2))
    num_quotients = int(ids.max()) // divisor + 1
    return np.stack([ids // divisor, num_quotients + ids % divisor], axis=1).astype(np.int32)


def _least_divisor(num_ids: int, num_rows: int) -> int | None:
    """Return the least c with ceil(num_ids / c) + c <= num_rows; the left side falls until c is the root."""
    for divisor in range(max(1, num_ids // num_rows), isqrt(num_ids) + 2):
        if -(-num_ids // divisor) + divisor <= num_rows:
            return divisor
    return None


def map_by_frequency(counts: NDArray[np.int64], num_rows: int) -> IdMap:
    """Give the ids that were seen most rows of their own, half of all; the others the rows that are left, by hash.

    `counts` int64 [ids] says how often each was seen.
    """
    hot = _hottest(counts, num_rows)
    rows = len(hot) + hash_ids(np.arange(len(counts)), num_rows - len(hot))
    rows[hot] = np.arange(len(hot))
    return _of_rows(rows)


def map_by_embedding(counts: NDArray[np.int64], embeddings: NDArray[np.float32], num_rows: int, seed: int) -> IdMap:
    """As `map_by_frequency`, but of the ids that are left those seen often enough share rows by their embeddings.

    Those are clustered, float32 [ids, d], by k-means that weighs each with its count; they and the ids that were seen
    less often have the rows that are left in the proportion in which they were seen, one at the least.
    """
    hot = _hottest(counts, num_rows)
    is_left = np.ones(len(counts), bool)
    is_left[hot] = False
    often = np.flatnonzero(is_left & (counts >= MIN_SEEN))
    if len(often) == 0 or (num_left := num_rows - len(hot)) < 2:
        return map_by_frequency(counts, num_rows)
    share = counts[often].sum() / counts[is_left].sum()
    num_clusters = min(len(often), max(1, min(num_left - 1, round(num_left * share))))
    rows = len(hot) + num_clusters + hash_ids(np.arange(len(counts)), num_left - num_clusters)
    rows[hot] = np.arange(len(hot))
    rows[often] = len(hot) + cluster(embeddings[often], counts[often].astype(np.float64), num_clusters, seed)
    return _of_rows(rows)


def map_by_class(classes: NDArray[np.int64], num_rows: int) -> IdMap:
    """Give all ids of a class, int64 [ids], one row, taken modulo the rows."""
    return _of_rows(classes % num_rows)


def _hottest(counts: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Return the ids that were seen most, the lower id first among equals, for half of the rows at most."""
    order = np.argsort(-counts, kind="stable")[: num_rows // 2]
    return order[counts[order] > 0]


def _of_rows(rows: NDArray[np.int64]) -> IdMap:
    return rows.astype(np.int32)[:, None]
