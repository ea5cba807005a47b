"""Candidates (nodes to recommend) by personalised PageRank: a diffusion of a few steps from one node, on subgraphs.

MeLoPPR (Li et al., "MeLoPPR: Software/Hardware Co-design for Memory-efficient Low-latency Personalized PageRank", DAC
2021) splits the L steps of the diffusion in two stages. The first stage is computed on the subgraph of the nodes that
its steps reach from the source. The residual of a node is the score that the first stage leaves there to be passed
on. Each residual is the source of a diffusion of the second stage, on a subgraph of its own. Diffusion is linear, so
the results of all diffusions are added up. If every residual is diffused, the sum equals the result of L steps
exactly. Diffusing only the nodes of largest residual takes less time and is less precise. No subgraph is as large as
the one that L steps reach.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from reference_models.process.errors import ConfigError, DatasetError
from reference_models.process.open_file import open_regular

STEPS = (3, 3)
"""Numbers of diffusion steps of the first and of the second stage, whose sum is L. These numbers and ALPHA (the
probability that a walk takes another step) are those of MeLoPPR."""
ALPHA = 0.95
GENERATED_NODES, _RING, _SHORTCUTS = 20_000, 3, 2
_JOINED, _COMMUNITY, _OWN_SHARE = 4, 50, 0.95
MAX_EDGES = 5_000_000
"""Maximum number of a graph's edges, which take less than 1 GB of memory. The largest graph that MeLoPPR measures,
com-Youtube, has 2,987,624 edges."""
MAX_BYTES = 256 << 20
"""Maximum bytes of a graph's file."""
_TIE = 1e-12
"""Score difference up to which two nodes tie."""
_BLOCK_BYTES, _MAX_LINE_BYTES = 1 << 20, 1 << 12
_EDGES = re.compile(rb"(?:[0-9]{1,18}[ \t][0-9]{1,18}\r?\n)*")
Nodes = NDArray[np.int64]
Scores = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """Undirected graph of N nodes; `walk[i, j]`, float64 [N, N], is the probability of a step from node j to node
    i."""

    walk: csr_array
    names: Nodes
    """Names (numbers) of the nodes in the graph's file, ascending: [N]."""

    def find(self, name: int) -> int:
        """Return the index of the graph's node called `name`. Raises ConfigError if there is none."""
        node = int(np.searchsorted(self.names, name))
        if node == len(self.names) or self.names[node] != name:
            raise ConfigError(
                f"node {name} is outside the graph: it has {len(self.names):,}, {self.names[0]} to "
                f"{self.names[-1]}. Give nodes of the graph."
            )
        return node


@dataclass(frozen=True, kw_only=True, slots=True)
class Diffusion:
    """PageRank scores after a diffusion: the K nodes that it reached in ascending order, int64 [K], and their scores,
    float64 [K]. All other nodes have score 0.

    Memory grows with the number of nodes reached, not with the size of the graph.
    """

    nodes: Nodes
    scores: Scores
    num_nodes: int

    def top(self, k: int) -> Nodes:
        """Return the `k` nodes of highest PageRank score, lower node numbers first where scores are equal."""
        best = self.nodes[np.argsort(-self.scores, kind="stable")[:k]]
        if len(best) < min(k, self.num_nodes):
            others = np.setdiff1d(np.arange(min(k + len(best), self.num_nodes)), best, assume_unique=True)
            best = np.concatenate([best, others])[:k]
        return best


def make_graph(edges: NDArray[np.int64]) -> Graph:
    """Return the undirected graph of edges [E, 2]; repeated edges count once."""
    names, ends = np.unique(edges, return_inverse=True)
    first, second = ends.reshape(-1, 2).T
    pairs = (np.concatenate([first, second]), np.concatenate([second, first]))
    adjacency = coo_array((np.ones(len(pairs[0])), pairs), shape=(len(names),) * 2).tocsr()
    adjacency.data[:] = 1.0
    degrees = np.diff(adjacency.indptr)
    adjacency.data /= degrees[adjacency.indices]
    return Graph(walk=adjacency, names=names)


def generate_small_world(seed: int, num_nodes: int = GENERATED_NODES) -> Graph:
    """Generate a small-world graph of degree 8 at most.

    It is a ring with each node joined to its 3 nearest on both sides, and two random matchings, each of which gives
    every node a shortcut.
    """
    nodes, rng = np.arange(num_nodes), np.random.default_rng(seed)
    ring = [np.stack([nodes, (nodes + far) % num_nodes], axis=1) for far in range(1, _RING + 1)]
    matchings = [rng.permutation(num_nodes)[: num_nodes // 2 * 2].reshape(-1, 2) for _ in range(_SHORTCUTS)]
    return make_graph(np.concatenate([*ring, *matchings]))


def generate_power_law(seed: int, num_nodes: int = GENERATED_NODES) -> Graph:
    """Generate a power-law graph by preferential attachment: each node joins 4 earlier ones, drawn by their degree.

    Barabási and Albert 1999; drawn as in Batagelj and Brandes 2005, "Efficient generation of large random networks".
    """
    ends = np.repeat(np.arange(num_nodes), 2 * _JOINED).tolist()
    drawn = np.random.default_rng(seed).integers(0, np.arange(1, len(ends), 2)).tolist()
    for edge, place in enumerate(drawn):
        ends[2 * edge + 1] = ends[place]
    edges = np.array(ends).reshape(-1, 2)
    return make_graph(edges[edges[:, 0] != edges[:, 1]])


def generate_communities(seed: int, num_nodes: int = GENERATED_NODES) -> Graph:
    """Generate a graph of communities of 50 nodes: each node is joined to 4 random nodes, each of which is drawn from
    the node's own community with probability 19/20, else from all nodes.

    A planted partition (Condon and Karp 2001).
    """
    nodes, rng = np.repeat(np.arange(num_nodes), _JOINED), np.random.default_rng(seed)
    near = np.minimum(nodes // _COMMUNITY * _COMMUNITY + rng.integers(0, _COMMUNITY, len(nodes)), num_nodes - 1)
    is_near = rng.random(len(nodes)) < _OWN_SHARE
    edges = np.stack([nodes, np.where(is_near, near, rng.integers(0, num_nodes, len(nodes)))], axis=1)
    return make_graph(edges[edges[:, 0] != edges[:, 1]])


GENERATED: Mapping[str, Callable[..., Graph]] = {
    "small_world": generate_small_world,
    "power_law": generate_power_law,
    "communities": generate_communities,
}
"""Generators of synthetic graphs by name: functions of a seed, and optionally of the number of nodes
(GENERATED_NODES)."""


def read_graph(path: Path) -> Graph:
    """Read a graph's edge list, two nodes (whole numbers) a line; empty lines and lines that begin with # are
    skipped.

    The file is read in pieces. Raises DatasetError if a line is no edge; the message names the first such line.
    Raises DatasetError, too, if the path is a link, or no regular file of at most MAX_BYTES bytes. Raises OSError if
    the system cannot read the file.
    """
    parts, num_edges, number, rest = list[NDArray[np.int64]](), 0, 1, b""
    with open_regular(path, max_bytes=MAX_BYTES) as file:
        while block := file.read(_BLOCK_BYTES):
            lines, end, rest = (rest + block).rpartition(b"\n")
            if len(rest) > _MAX_LINE_BYTES:
                number += (lines + end).count(b"\n")
                raise DatasetError(
                    f"{path}:{number}: more than {_MAX_LINE_BYTES:,} bytes, expected an edge in a line."
                )
            parts.append(_read_edges(lines + end, path, number))
            number, num_edges = number + (lines + end).count(b"\n"), num_edges + len(parts[-1])
            if num_edges > MAX_EDGES:
                raise DatasetError(f"{path}:{number - 1}: more than {MAX_EDGES:,} edges. Give fewer.")
    parts.append(_read_edges(rest, path, number))
    edges = np.concatenate(parts)
    if not len(edges):
        raise DatasetError(f"{path}: has no edge, expected one a line: two whole numbers.")
    return make_graph(edges)


def _read_edges(lines: bytes, path: Path, first: int) -> NDArray[np.int64]:
    """Return edges [E, 2] from complete lines of a graph's file; `first` is the number of the first line.

    Raises DatasetError naming the first line that is no edge.
    """
    if _EDGES.fullmatch(lines):
        return np.array(lines.split(), dtype=np.int64).reshape(-1, 2)
    edges = []
    for number, line in enumerate(lines.split(b"\n"), first):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        if len(words) != 2 or not all(word.isdigit() and len(word) < 19 for word in words):
            text = line.decode("utf-8", errors="replace").strip()[:40]
            raise DatasetError(f"{path}:{number}: {text!r}, expected an edge: two whole numbers.")
        edges.append((int(words[0]), int(words[1])))
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _edges_from(graph: Graph, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Return, for the edges of all `nodes`, node by node, their positions in the data array of the sparse matrix
    `graph.walk`; and each node's number of edges."""
    starts = graph.walk.indptr[nodes].astype(np.int64)
    counts = graph.walk.indptr[nodes + 1] - starts
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum()), counts


def find_ball(graph: Graph, source: int, num_hops: int) -> Nodes:
    """Return the graph's nodes within `num_hops` hops of `source`, ascending, by breadth-first search."""
    level = seen = np.array([source])
    for _ in range(num_hops):
        reached = np.unique(graph.walk.indices[_edges_from(graph, level)[0]]).astype(np.int64)
        level = reached[~_look_up(seen, reached)[1]]
        seen = np.sort(np.concatenate([seen, level]))
    return seen


def _look_up(nodes: Nodes, wanted: NDArray[np.int32] | Nodes) -> tuple[Nodes, NDArray[np.bool]]:
    """Return, for each node of `wanted`, its index in the ascending `nodes`, and whether it is among `nodes`; the
    index of a node that is not among them is in range and has no meaning."""
    places = np.minimum(np.searchsorted(nodes, wanted), len(nodes) - 1)
    return places, nodes[places] == wanted


def _diffuse(walk: csr_array, source: int, num_steps: int) -> tuple[Scores, Scores]:
    """Return two values of each node after a diffusion of `num_steps` steps from `source`: the score that the steps
    have left on it, and its residual, the probability that the last step moved to it."""
    left, moved = np.zeros((2, walk.shape[0]))
    moved[source] = 1.0
    for step in range(num_steps):
        left += (1 - ALPHA) * ALPHA**step * moved
        moved = np.asarray(walk @ moved)
    return left, moved


def _diffuse_near(graph: Graph, source: int, num_steps: int) -> tuple[Nodes, Scores, Scores]:
    """Diffuse from `source` on the subgraph of nodes within `num_steps` hops; return these nodes, with their scores
    and residuals (probabilities that the last step moved to the node)."""
    nodes = find_ball(graph, source, num_steps)
    edges, counts = _edges_from(graph, nodes)
    places, is_inside = _look_up(nodes, graph.walk.indices[edges])
    rows = np.repeat(np.arange(len(nodes)), counts)[is_inside]
    starts = np.searchsorted(rows, np.arange(len(nodes) + 1))
    parts = (graph.walk.data[edges[is_inside]], places[is_inside].astype(np.int32), starts.astype(np.int32))
    del edges, counts, places, is_inside, rows  # freed here, so that they do not add to the peak
    walk = csr_array(parts, shape=(len(nodes),) * 2)
    return nodes, *_diffuse(walk, int(np.searchsorted(nodes, source)), num_steps)


def diffuse_globally(graph: Graph, source: int, num_steps: int = sum(STEPS)) -> Scores:
    """Return the exact PageRank scores [N] after `num_steps` steps of diffusion on the whole graph."""
    left, moved = _diffuse(graph.walk, source, num_steps)
    return left + ALPHA**num_steps * moved


def diffuse_at_once(graph: Graph, source: int) -> Diffusion:
    """Return the result of diffusing all L steps in one stage, on the subgraph of the nodes within L hops."""
    nodes, left, moved = _diffuse_near(graph, source, sum(STEPS))
    return Diffusion(nodes=nodes, scores=left + ALPHA ** sum(STEPS) * moved, num_nodes=len(graph.names))


def diffuse_in_stages(graph: Graph, source: int, num_subgraphs: int | None) -> Diffusion:
    """Diffuse scores from the node `source` in two stages; return the nodes reached and their scores.

    A node's residual is the score that the first stage leaves there to be passed on. The second stage diffuses the
    residuals of the `num_subgraphs` nodes of highest residual; if None, of all nodes with a residual above 0. All
    other residuals are dropped, as in MeLoPPR's released code.
    """
    nodes, left, residuals = _diffuse_near(graph, source, STEPS[0])
    sums, parts, num_waiting = (nodes, left), list[tuple[Nodes, Scores]](), 0
    for place in np.argsort(-residuals, kind="stable")[:num_subgraphs].tolist():
        if (weight := ALPHA ** STEPS[0] * residuals[place]) > 0:
            near, its_left, moved = _diffuse_near(graph, int(nodes[place]), STEPS[1])
            parts.append((near, weight * (its_left + ALPHA ** STEPS[1] * moved)))
            num_waiting += len(near)
            if num_waiting > len(sums[0]):  # in batches, which bounds both the number of sums and the memory
                sums, parts, num_waiting = _add_up([sums, *parts]), [], 0
    found, scores = _add_up([sums, *parts])
    return Diffusion(nodes=found, scores=scores, num_nodes=len(graph.names))


def _add_up(parts: Sequence[tuple[Nodes, Scores]]) -> tuple[Nodes, Scores]:
    """Return all nodes that several diffusions reached, ascending, with the sum of each node's scores. `parts` has
    the nodes and scores of each diffusion; scores are added in the order of `parts`."""
    nodes, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    sums = np.bincount(places, weights=np.concatenate([part[1] for part in parts]))
    return nodes, sums.astype(np.float64, copy=False)


def precision(found: Nodes, exact: Scores) -> float:
    """Return the share of the K nodes `found` that are among the K nodes of highest exact score; where nodes tie for
    the last of these K places, any of them counts."""
    least = np.partition(exact, -len(found))[-len(found)]
    is_above, is_equal = exact > least + _TIE, np.abs(exact - least) <= _TIE
    num_equal = min(is_equal[found].sum(), len(found) - is_above.sum())
    return float(is_above[found].sum() + num_equal) / len(found)
