"""Axes of a sweep: what `--axis` reads, the matrix it makes, and what may not vary in runs to a target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.axes import make_points, overrides_of, read_axis, refuse_other_problems, split_values
from reference_models.dlrm.spec import SPEC
from reference_models.process.errors import ConfigError
from rules.benchmarks.loader import load_benchmark

TINY = load_benchmark("dlrm_tiny")
MODEL = TINY.sections["model"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("train.global_batch_size=512,1024", (512, 1024)),
        ("runtime.implementation=reference,optimized", ("reference", "optimized")),
        ("train.opt_base_learning_rate=1e-3, 0.5", (1e-3, 0.5)),
        ("model.bottom_mlp=[64,16],[16]", ([64, 16], [16])),
        ("model.top_mlp=512-256-1,1", ([512, 256, 1], [1])),
        ("model.mlp=64^3,32-8", ([64, 64, 64], [32, 8])),
        ("data.name='a,b',c", ("a,b", "c")),
    ],
)
def test_an_axis_is_a_key_and_its_values(text: str, values: tuple[object, ...]) -> None:
    axis = read_axis(text, SPEC.width_keys)
    assert axis.key == text.partition("=")[0]
    assert axis.values == values


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("train.global_batch_size", "section.key=V1,V2"),
        ("train.global_batch_size=", "section.key=V1,V2"),
        ("train.global_batch_size=1,,2", "section.key=V1,V2"),
        ("global_batch_size=1,2", "section.key=V1,V2"),
        ("trian.global_batch_size=1", "Did you mean 'train'"),
        ("submission.submitter=a,b", "unknown section"),
        ("train.global_batch_size=8,16,8", "8 is given twice"),
        ("model.mlp=64^0", "widths"),
        ("model.mlp=64^999999999", "widths"),
        ("model.top_mlp=64x1", "widths"),
    ],
)
def test_what_is_no_axis_is_an_error_that_says_what_is(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part.replace("^", r"\^").replace("'", "'")):
        read_axis(text, SPEC.width_keys)


@given(st.text(alphabet=",[]{}'\"ab= ", max_size=40))
def test_splitting_loses_nothing_but_blanks_and_commas(text: str) -> None:
    parts = split_values(text)
    assert "".join("".join(parts).split()).replace(",", "") == "".join(text.split()).replace(",", "")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_the_matrix_holds_every_combination_once(sizes: list[int]) -> None:
    axes = [read_axis(f"data.k{n}={','.join(map(str, range(size)))}") for n, size in enumerate(sizes)]
    points = make_points(axes)
    product = 1
    for size in sizes:
        product *= size
    assert len({tuple(point.values.values()) for point in points}) == len(points) == product
    assert len({point.folder_name for point in points}) == product


def test_a_matrix_needs_axes_that_are_different_and_not_too_many() -> None:
    for texts, part in (
        ([], "at least one"),
        (["train.a=1,2", "train.a=3"], "given twice"),
        ([f"data.{key}={','.join(map(str, range(40)))}" for key in "ab"], "1600 configurations"),
    ):
        with pytest.raises(ConfigError, match=part):
            make_points([read_axis(text) for text in texts])


@pytest.mark.parametrize(
    "text", ["runtime.threads=1,2", "train.global_batch_size=256,512", "train.opt_base_learning_rate=0.1"]
)
def test_what_the_definition_leaves_free_may_vary_on_the_way_to_a_target(text: str) -> None:
    refuse_other_problems([read_axis(text)], TINY)


@pytest.mark.parametrize(
    "text", ["model.embedding_dim=8", "data.num_tables=2", "train.opt_adagrad_epsilon=1", "quality.target=0.7"]
)
def test_what_changes_the_problem_is_refused_and_leads_to_throughput(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--throughput STEPS.*train\.global_batch_size"):
        refuse_other_problems([read_axis(text)], TINY)


def test_a_name_that_others_use_leads_to_ours() -> None:
    with pytest.raises(ConfigError, match=r"It is called train\.global_batch_size here"):
        refuse_other_problems([read_axis("train.batch_size=1,2")], TINY)


def follow(*texts: str) -> list[dict[str, object]]:
    """[model] of every point, with what follows in it."""
    points = make_points([read_axis(text, SPEC.width_keys) for text in texts])
    changes = [{override.key.removeprefix("model."): override.value for override in overrides_of(p)} for p in points]
    return [dict(SPEC.follow(MODEL | changed, changed)) for changed in changes]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.embedding_dim=8", {"embedding_dim": 8, "bottom_mlp": [32, 8]}),
        ("model.mlp=64^2", {"bottom_mlp": [64, 64, 16], "top_mlp": [64, 64, 1]}),
        ("model.bottom_mlp=8-16", {"bottom_mlp": [8, 16]}),
    ],
)
def test_what_follows_from_a_value_is_set_with_it(text: str, expected: dict[str, object]) -> None:
    assert follow(text) == [MODEL | expected]


def test_both_mlps_end_in_the_dimension_of_their_own_configuration() -> None:
    made = follow("model.embedding_dim=4,8", "model.mlp=32")
    assert [model["bottom_mlp"] for model in made] == [[32, 4], [32, 8]]


def test_a_shorthand_and_what_it_abbreviates_are_not_set_both() -> None:
    with pytest.raises(ConfigError, match=r"both MLPs, so model\.top_mlp cannot"):
        follow("model.mlp=8", "model.top_mlp=8-1")
