"""Weighted k-means: few centres for many points, some of which count more than others."""

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import vq

_MAX_STEPS = 30
_NUM_STARTS = 4


def cluster(
    points: NDArray[np.float32], weights: NDArray[np.float64], num_clusters: int, seed: int
) -> NDArray[np.int64]:
    """Return the cluster of each of the points [n, d], below `num_clusters`, which is at most n: int64 [n].

    Lloyd's algorithm from a few k-means++ starts (Arthur and Vassilvitskii 2007); the one with the least weighted
    sum of squared distances is taken.
    """
    generator = np.random.default_rng(seed)
    starts = [_lloyd(points, weights, _spread(points, weights, num_clusters, generator)) for _ in range(_NUM_STARTS)]
    return min(starts, key=lambda found: found[0])[1]


def _spread(
    points: NDArray[np.float32], weights: NDArray[np.float64], num_clusters: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Draw centres among the points, each the likelier the farther it is from those that are drawn."""
    chosen, nearest = np.empty((num_clusters, points.shape[1]), np.float32), np.ones(len(points))
    for place in range(num_clusters):
        mass = np.cumsum(weights * nearest)
        drawn = int(np.searchsorted(mass, generator.random() * mass[-1])) if mass[-1] > 0 else place
        chosen[place] = points[min(drawn, len(points) - 1)]
        distance = np.square(points - chosen[place]).sum(axis=1, dtype=np.float64)
        nearest = np.minimum(nearest, distance) if place else distance
    return chosen


def _lloyd(
    points: NDArray[np.float32], weights: NDArray[np.float64], centres: NDArray[np.float32]
) -> tuple[float, NDArray[np.int64]]:
    """Move centres to the means of the points that they are nearest to until no point changes its centre."""
    labels = np.full(len(points), -1)
    for _ in range(_MAX_STEPS):
        before = labels
        found, distances = vq(points, centres)
        labels = found.astype(np.int64)
        if np.array_equal(labels, before):
            break
        mass = np.bincount(labels, weights, len(centres))
        sums = [np.bincount(labels, weights * column, len(centres)) for column in points.T]
        has_points = mass > 0
        centres[has_points] = (np.stack(sums, axis=1)[has_points] / mass[has_points, None]).astype(np.float32)
    return float(np.sum(weights * np.square(distances.astype(np.float64)))), labels
