"""A ratio that spreads too far over its rounds is measured again, and is undecided where it still does."""

import importlib.util
from typing import Any

import pytest
from places import TESTS


@pytest.fixture(scope="module")
def ratios() -> Any:
    spec = importlib.util.spec_from_file_location("ratios", TESTS / "performance" / "ratios.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STEADY = {"ours": [1.0, 1.1, 0.9], "peer": [1.5, 1.6, 1.4], "limit": [0.8, 0.9, 0.7]}
JUMPY = {**STEADY, "peer": [1.5, 2.4, 1.4]}
WILD = {**STEADY, "limit": [0.8, 0.1, 0.7]}


@pytest.mark.parametrize(
    ("measured", "taken"),
    [([STEADY], STEADY), ([JUMPY, STEADY], STEADY), ([JUMPY, WILD], JUMPY), ([WILD, JUMPY], JUMPY)],
    ids=["steady at once", "steady again", "the steadier is first", "the steadier is second"],
)
def test_the_steadier_of_at_most_two_is_taken(ratios: Any, measured: list[Any], taken: Any) -> None:
    left = iter(measured)
    assert ratios.measure_again_in_doubt(lambda: next(left), "ours", ["peer", "limit"]) is taken
    assert next(left, None) is None


def test_what_spreads_beyond_1_3_is_undecided(ratios: Any) -> None:
    steady, jumpy = (ratios.Ratios.of(times["peer"], times["ours"]) for times in (STEADY, JUMPY))
    assert steady.text() == "1.50 (1.45 to 1.56)" and jumpy.text() == "1.50 (1.50 to 2.18) undecided"
    assert ratios.Ratios.of(STEADY["limit"], STEADY["ours"]).percent() == "80 % (78 to 82 %)"
