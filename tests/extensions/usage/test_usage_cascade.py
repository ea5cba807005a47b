"""Cascades end to end: lists against a loop over queries, items kept to take, and which usages have one."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.extensions.usage.cascade import (
    Cascade,
    CascadePoint,
    draw_items,
    find_fewest,
    judge_lists,
    with_cascade,
)
from harness.foundation.study import make_study, make_table

Call = Callable[..., tuple[int, str, str]]
SMALL = '{ "model.embedding_dim" = 2, "model.bottom_mlp" = [2], "model.top_mlp" = [4, 1] }'
USAGE = f"""
[usage]
title = "a test: a cascade"
source = "a test"
duration_s = 1
workers = 1
[few]
source = "dlrm_tiny"
settings = {SMALL}
rate = 2
deadline_ms = 60000
items = 64
top_k = 16
[many]
source = "dlrm_tiny"
after = "few"
top_k = 5
deadline_ms = 60000
"""


def loop(queries: Any, filtering: Any, ranking: Any, gains: Any, kept: int, shown: int) -> list[float]:
    """Judge each query's list by itself."""
    found = []
    for items in queries.tolist():
        passed = sorted(items, key=lambda item: -filtering[item])[:kept]
        listed = sorted(passed, key=lambda item: -ranking[item])[:shown]
        ideal = sorted(items, key=lambda item: -gains[item])[:shown]
        got, best = (
            sum(gains[item] / math.log2(place + 2) for place, item in enumerate(row)) for row in (listed, ideal)
        )
        found.append(got / best)
    return found


@pytest.mark.parametrize(("kept", "shown"), [(30, 5), (7, 5), (5, 5), (30, 30)])
def test_lists_are_judged_as_query_by_query(kept: int, shown: int) -> None:
    rng = np.random.default_rng(3)
    gains, queries = rng.random(200) ** 3, draw_items(200, 30, 1)
    filtering, ranking = (gains + rng.normal(0, deviation, 200) for deviation in (0.5, 0.1))
    assert queries.shape[1] == 30 and all(len({*row}) == 30 for row in queries.tolist()) and len(queries) >= 400
    found = judge_lists(queries, filtering, ranking, gains, kept, shown)
    assert found == pytest.approx(loop(queries, filtering, ranking, gains, kept, shown))
    assert judge_lists(queries, filtering, gains, gains, 30, shown) == pytest.approx(1.0)


def point(kept: int, *of_all: float) -> CascadePoint:
    return CascadePoint(kept=kept, ndcg=[0.9 * each for each in of_all], of_all=of_all, flop_share=kept / 64)


def test_the_fewest_items_kept_lose_no_more_than_a_hundredth_for_sure() -> None:
    whole, good, unsure, lost = (
        point(64, 1.0, 1.0), point(32, 0.999, 0.998), point(16, 0.999, 0.985), point(8, 0.9, 0.9)
    )  # fmt: skip
    assert find_fewest([whole, good, unsure, lost]).kept == 32
    assert find_fewest([whole, lost, good]).kept == 64, "fewer items that chance upon quality are not taken"
    assert find_fewest([whole, point(32, 0.995), lost]).kept == 32, "one training has no interval"
    empty = make_table("a", [("A", None, "given")], [])
    made = make_study("usage", "t", None, tables=[empty], parameters=[], findings=["b"])
    cascade = Cascade(filter="few", ranker="many", items=64, kept=16, shown=5)
    study = with_cascade(made, cascade, [whole, good, unsure, lost], 1_000)
    assert "lists of 5 from 64 items" in study.findings[0] and "take few.top_k=32" in study.findings[1]
    assert [row[1] for row in study.tables[1].rows] == [64, 32, 16, 8] and study.findings[-1] == "b"
    none = with_cascade(made, cascade, [whole, point(16, 0.9, 0.9)], 1_000)
    assert none.findings[1].startswith("No fewer items than all")


@pytest.mark.parametrize(
    "change",
    [
        ('after = "few"', "rate = 2"),
        (f"settings = {SMALL}", f'settings = {SMALL[:-1]}, "data.seed" = 5 }}'),
        ("top_k = 16", "top_k = 64"),
    ],
    ids=["no chain", "other data", "nothing is filtered"],
)
def test_usages_without_a_cascade_are_refused_before_anything_is_measured(
    change: tuple[str, str], command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(USAGE.replace(*change))
    code, out, err = command("usage", "mine.toml", "--train", "1000", "-o", "out")
    assert (code, out) == (2, "") and "no model ranks what another one filters" in err, err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_cascade_is_trained_and_judged_end_to_end(
    command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(USAGE)
    words = ("--train", "16384", "--simulated", "-n", "2", "--seed", "1", "--threads", "1", "-q", "-o", "out")
    code, out, err = command("usage", "mine.toml", *words)
    assert code == 0 and "few and many end to end, lists of 5 from 64 items: NDCG 0." in " ".join(out.split()), err
    assert "measured over 2 trainings of each model" in " ".join(out.split())
