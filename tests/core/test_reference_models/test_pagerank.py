"""Candidates by personalised PageRank: exact where all residuals are diffused, and as networkx says in the limit."""

import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from bounded_command import bounded_memory
from numpy.typing import NDArray

from reference_models.process.errors import ConfigError, DatasetError
from reference_models.serving import pagerank
from reference_models.serving.pagerank import (
    Diffusion,
    Graph,
    diffuse_at_once,
    diffuse_globally,
    diffuse_in_stages,
    find_ball,
)

pytestmark = pytest.mark.numeric


def power_law(seed: int) -> Graph:
    return pagerank.make_graph(np.array(nx.barabasi_albert_graph(300, 2, seed=seed).edges))


def star(num_leaves: int) -> Graph:
    return pagerank.make_graph(np.array([(0, leaf) for leaf in range(1, num_leaves + 1)]))


GRAPHS = (pagerank.generate_small_world(3, 2_000), power_law(1), star(40))


def scores_of(found: Diffusion) -> NDArray[np.float64]:
    whole = np.zeros(found.num_nodes)
    whole[found.nodes] = found.scores
    return whole


def peak_of(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS, ids=("small world", "power law", "star"))
def test_all_residuals_make_the_exact_steps_on_the_whole_graph(graph: Graph) -> None:
    for source in (0, 1, 17, 39):
        exact = diffuse_globally(graph, source)
        assert exact.sum() == pytest.approx(1)
        for found in (diffuse_in_stages(graph, source, None), diffuse_at_once(graph, source)):
            assert np.abs(scores_of(found) - exact).max() <= 1e-12
            assert pagerank.precision(found.top(30), exact) == 1


@pytest.mark.parametrize("graph", GRAPHS, ids=("small world", "power law", "star"))
def test_balls_are_those_of_breadth_first_search(graph: Graph) -> None:
    peer = nx.from_scipy_sparse_array(graph.walk)
    for source in (0, 5, 33):
        for num_hops in range(5):
            expected = nx.single_source_shortest_path_length(peer, source, cutoff=num_hops)
            assert find_ball(graph, source, num_hops).tolist() == sorted(expected)


def test_many_steps_tend_to_the_pagerank_of_networkx() -> None:
    graph = nx.barabasi_albert_graph(300, 2, seed=4)
    expected = nx.pagerank(graph, alpha=pagerank.ALPHA, personalization={7: 1.0}, tol=1e-13, max_iter=2_000)
    ours = pagerank.make_graph(np.array(graph.edges))
    errors = [
        np.abs(diffuse_globally(ours, 7, num_steps) - [expected[node] for node in range(300)]).max()
        for num_steps in (6, 60, 600)
    ]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-10


def test_fewer_subgraphs_leave_out_what_the_others_would_pass_on() -> None:
    graph = GRAPHS[0]
    sums = [diffuse_in_stages(graph, 9, num).scores.sum() for num in (1, 5, 20, None)]
    assert sums == sorted(sums) and sums[0] < 0.9 < sums[-1] == pytest.approx(1)


@pytest.mark.slow
def test_the_shipped_graph_is_more_precise_with_more_subgraphs_and_saves_memory() -> None:
    graph = pagerank.generate_small_world(0)
    degrees = np.diff(graph.walk.indptr)
    assert len(graph.names) == 20_000 and degrees.max() == 8
    sources = np.random.default_rng(1).permutation(20_000)[:200].tolist()
    exact = [diffuse_globally(graph, source) for source in sources]
    at_once = max(peak_of(partial(diffuse_at_once, graph, source)) for source in sources[:20])
    precisions, savings = [], []
    for num, count in ((1, 200), (10, 200), (50, 200), (None, 20)):
        found = [diffuse_in_stages(graph, source, num) for source in sources[:count]]
        precisions.append(
            np.mean([pagerank.precision(each.top(100), its) for each, its in zip(found, exact, strict=False)])
        )
        savings.append(at_once / max(peak_of(partial(diffuse_in_stages, graph, each, num)) for each in sources[:20]))
    assert precisions == sorted(set(precisions)) and precisions[-1] == 1
    assert any(mean >= 0.8 and saving >= 1.5 for mean, saving in zip(precisions, savings, strict=True))


def test_on_a_star_no_subgraph_is_smaller_than_that_of_all_steps() -> None:
    graph = star(500)
    for num in (1, 10, None):
        assert peak_of(partial(diffuse_in_stages, graph, 7, num)) >= peak_of(partial(diffuse_at_once, graph, 7))


def test_memory_is_that_of_the_nodes_that_are_near_however_large_the_graph() -> None:
    peaks = [
        peak_of(lambda graph=graph: diffuse_in_stages(graph, 7, 5).top(20))  # type: ignore[misc]
        for graph in (pagerank.generate_small_world(0, 2_000), pagerank.generate_small_world(0, 50_000))
    ]
    assert peaks[1] < 1.5 * peaks[0] < 50_000 * 8, "an array as long as the graph takes more"


def test_the_best_are_filled_up_where_fewer_nodes_are_reached() -> None:
    found = Diffusion(nodes=np.array([1, 4, 5]), scores=np.array([0.2, 0.5, 0.2]), num_nodes=7)
    assert found.top(2).tolist() == [4, 1] and found.top(5).tolist() == [4, 1, 5, 0, 2]
    assert found.top(9).tolist() == [4, 1, 5, 0, 2, 3, 6]


def test_generated_graphs_are_what_they_are_called() -> None:
    made = {name: make(5, 3_000) for name, make in pagerank.GENERATED.items()}
    degrees = {name: np.diff(graph.walk.indptr) for name, graph in made.items()}
    assert all(len(graph.names) == 3_000 for graph in made.values())
    assert degrees["small_world"].max() == 8 and degrees["communities"].max() < 30
    assert degrees["power_law"].max() > 100 and 4 <= np.median(degrees["power_law"]) <= 6
    rows = made["communities"].walk.tocoo()
    assert 0.9 < np.mean(rows.coords[0] // 50 == rows.coords[1] // 50) < 0.98
    again = pagerank.GENERATED["power_law"](5, 3_000)
    assert (again.walk != made["power_law"].walk).nnz == 0


def test_nodes_of_equal_score_are_as_good_as_one_another() -> None:
    exact = diffuse_globally(star(40), 1)
    assert pagerank.precision(np.array([0, 1, 30]), exact) == 1
    assert pagerank.precision(np.array([2, 3, 30]), exact) == pytest.approx(1 / 3)


def test_edges_are_read_in_both_directions_and_once(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("# a comment\n7 100\n100\t7\n\n7 7\n100 2000000000\n")
    graph = pagerank.read_graph(path)
    assert graph.names.tolist() == [7, 100, 2_000_000_000]
    assert graph.walk.toarray().tolist() == [[0.5, 0.5, 0], [0.5, 0, 1], [0, 0.5, 0]]
    assert graph.find(100) == 1
    with pytest.raises(ConfigError, match=r"node 8 is outside the graph: it has 3, 7 to 2000000000"):
        graph.find(8)


@pytest.mark.parametrize("line", ("1", "1 2 3", "1 x", "1 -2", "1 2.5", "1,2", "1 ٣", "1 99999999999999999999"))
def test_a_line_that_is_no_edge_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text(f"1 2\n# 3\n{line}\n4 5\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"edges\.txt:3: .* expected an edge: two whole numbers"):
        pagerank.read_graph(path)


def test_a_file_without_an_edge_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("# nothing\n")
    with pytest.raises(DatasetError, match="has no edge"):
        pagerank.read_graph(path)


def test_a_graph_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagerank, "_BLOCK_BYTES", 7)
    path = tmp_path / "edges.txt"
    path.write_bytes(b"10 11\n11\t12\r\n# none\n\n 12  13\n13 10")
    assert pagerank.read_graph(path).names.tolist() == [10, 11, 12, 13]
    path.write_bytes(b"10 11\n11 12\n# none\n12 x\n")
    with pytest.raises(DatasetError, match=r"edges\.txt:4: '12 x', expected an edge"):
        pagerank.read_graph(path)


@pytest.mark.parametrize(
    "content",
    [
        b"1 2\n" + b"#" * 10_000_000,
        b"\0" * 10_000_000,
        pytest.param(b"1 2\n" * 5_000_001, marks=pytest.mark.slow),
    ],
)
def test_lines_and_edges_are_bounded(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_bytes(content)
    with bounded_memory(512 << 20), pytest.raises(DatasetError, match=r"edges\.txt:\d+: more than \d"):
        pagerank.read_graph(tmp_path / "edges.txt")
