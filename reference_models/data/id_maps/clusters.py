"""Cluster weighted points, such as the embeddings of ids, by k-means."""

import numpy as np
from numpy.typing import NDArray

_MAX_STEPS, _NUM_STARTS = 30, 4


def cluster(
    points: NDArray[np.float32], weights: NDArray[np.float64], num_clusters: int, seed: int
) -> NDArray[np.int32]:
    """Cluster points [n, d]; return the number of each point's cluster, from 0 to `num_clusters` - 1: int32 [n].
    `num_clusters` is at most n.

    Lloyd's algorithm runs from a few k-means++ starts (Arthur and Vassilvitskii 2007). The result is that with the
    least weighted sum of squared distances.
    """
    from scipy.cluster.vq import vq  # imported here: it takes a second, and few maps cluster

    generator, found = np.random.default_rng(seed), []
    for _ in range(_NUM_STARTS):
        centres = _spread(points, weights, num_clusters, generator)
        for _ in range(_MAX_STEPS):
            labels, distances = vq(points, centres)
            mass = np.bincount(labels, weights, num_clusters)[:, None]
            sums = [np.bincount(labels, weights * column, num_clusters) for column in points.T]
            means = np.divide(np.stack(sums, axis=1), mass, out=centres.astype(np.float64), where=mass > 0)
            before, centres = centres, means.astype(np.float32)
            if np.array_equal(before, centres):
                break
        found.append((float(weights @ np.square(distances, dtype=np.float64)), labels))
    return min(found, key=lambda start: start[0])[1]


def _spread(
    points: NDArray[np.float32], weights: NDArray[np.float64], num_clusters: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Draw k-means++ start centres among the points, likelier the farther a point is from the earlier centres."""
    chosen, nearest = np.empty((num_clusters, points.shape[1]), np.float32), np.ones(len(points))
    for place in range(num_clusters):
        mass = np.cumsum(weights * nearest)
        drawn = int(np.searchsorted(mass, generator.random() * mass[-1], side="right"))
        chosen[place] = points[min(drawn, len(points) - 1)]
        distance = np.square(points - chosen[place]).sum(axis=1, dtype=np.float64)
        nearest = np.minimum(nearest, distance) if place else distance
    return chosen
