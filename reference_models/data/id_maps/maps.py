"""Map an embedding table's ids to rows of a smaller table, one function per kind of [id_map]. A map is int32 [ids,
k]: the k rows whose sum is an id's embedding."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from reference_models.data.id_maps.clusters import cluster

IdMap = NDArray[np.int32]
MIN_SEEN = 6
"""Least number of times that an id must occur to be clustered. Rarer ids are hashed, since their embeddings are
hardly trained."""
_KNUTH = np.uint64(2_654_435_761)
_WORD = np.uint64(0xFFFF_FFFF)


def hash_ids(ids: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Return Knuth's multiplicative hash of each id, of 32 bits, modulo `num_rows`."""
    return (((ids.astype(np.uint64) * _KNUTH) & _WORD) % np.uint64(num_rows)).astype(np.int64)


def map_by_hash(num_ids: int, num_rows: int) -> IdMap:
    """Map each of `num_ids` ids to the row, below `num_rows`, that is its hash."""
    return _of_rows(hash_ids(np.arange(num_ids), num_rows))


def map_by_quotient(num_ids: int, num_rows: int) -> IdMap:
    """Map each id to two rows, one for its quotient and one for its remainder by a divisor, so that no two ids share
    both rows (quotient-remainder trick, Shi et al. 2019).

    The divisor is the least one with which rows for all quotients and all remainders fit in the table, so that as few
    ids as possible share a quotient. If none fits, half of the rows are for quotients and half for remainders. Ids
    are then first hashed to the number of pairs of a quotient and a remainder, so ids of equal hash share both rows.
    """
    ids = np.arange(num_ids)
    if (divisor := _least_divisor(num_ids, num_rows)) is None:
        divisor = num_rows - num_rows // 2
        ids = hash_ids(ids, divisor * (num_rows // 2))
    num_quotients = int(ids.max()) // divisor + 1
    return np.stack([ids // divisor, num_quotients + ids % divisor], axis=1).astype(np.int32)


def _least_divisor(num_ids: int, num_rows: int) -> int | None:
    """Return the number of remainders for two-table compositional embeddings: the least divisor c with ceil(num_ids /
    c) + c <= num_rows, at most the square root of num_ids. None if there is none."""
    for divisor in range(max(1, num_ids // num_rows), isqrt(num_ids) + 2):
        if -(-num_ids // divisor) + divisor <= num_rows:
            return divisor
    return None


def map_by_frequency(counts: NDArray[np.int64], num_rows: int) -> IdMap:
    """Map the most frequent ids to rows of their own, half of all rows; hash the other ids to the remaining rows.

    `counts` int64 [ids] are the ids' occurrences.
    """
    hot = _hottest(counts, num_rows)
    rows = len(hot) + hash_ids(np.arange(len(counts)), num_rows - len(hot))
    rows[hot] = np.arange(len(hot))
    return _of_rows(rows)


def map_by_embedding(counts: NDArray[np.int64], embeddings: NDArray[np.float32], num_rows: int, seed: int) -> IdMap:
    """Map ids to rows by three methods: the most frequent ids get rows of their own, other frequent ids share a row
    per cluster of similar embeddings, and all other ids are hashed.

    Half of all rows are for the most frequent ids. The other half is divided between clustered and hashed ids in
    proportion to their occurrences, at least one row each. Clusters are found by k-means on `embeddings` float32
    [ids, d], weighted by counts.
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
    """Map each id to a row by the class of the id, such as a category: `classes` int64 [ids], taken modulo
    `num_rows`."""
    return _of_rows(classes % num_rows)


def _hottest(counts: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Return the most frequent ids, lower ids first among equally frequent ones: at most half as many ids as the
    table has rows, and only ids that occur."""
    order = np.argsort(-counts, kind="stable")[: num_rows // 2]
    return order[counts[order] > 0]


def _of_rows(rows: NDArray[np.int64]) -> IdMap:
    return rows.astype(np.int32)[:, None]
