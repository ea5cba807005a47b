"""dlrmv4 of round 6.1: the official checker accepts and rejects the same logs, and its RCP checker the same sets."""

from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import DISCLOSED, Record, make_records, make_runs, to_log, with_record, without, write_log, write_set
from official_opinion import ask_official_checker

from rules.benchmarks.loader import load_benchmark
from rules.judge.agreement import compare_opinions
from rules.judge.second_opinion import with_second_opinion
from rules.judge.sets import check_log
from rules.logs import keys
from rules.scoring.results import read_run_result
from rules.scoring.scoring import score_runs

V4 = load_benchmark("dlrmv4")
GOOD = make_records(V4, num_evals=4, ours=False)
OPEN = make_records(V4, num_evals=4, ours=False, division="open")
LARGE = make_records(V4, num_evals=4, ours=False, global_batch_size=32768)
LR, SPARSE_LR = keys.OPT_BASE_LEARNING_RATE, "opt_sparse_base_learning_rate"


def lr(records: list[Record], rate: float, sparse: float | None = None) -> list[Record]:
    both = with_record(records, LR, value=rate)
    return with_record(both, SPARSE_LR, value=rate if sparse is None else sparse)


def last_first(records: list[Record], key: str) -> list[Record]:
    """The first record of `key` moved up, right behind init_start."""
    moved = next(record for record in records if record["key"] == key)
    rest = [record for record in records if record is not moved]
    return [*rest[:2], {**moved, "time_ms": rest[1]["time_ms"]}, *rest[2:]]


def shift_evaluations(records: list[Record], by: int) -> list[Record]:
    changed = with_record(records, keys.RUN_START)
    for record in changed:
        if record["key"] == keys.EVAL_ACCURACY:
            record["metadata"]["samples_count"] += by
    return changed


ACCEPTED = {
    "closed": GOOD,
    "closed, another batch size": LARGE,
    "closed, the lowest rate": lr(GOOD, 0.5e-6),
    "closed, the highest rate": lr(GOOD, 1.5e-6),
    "closed, a weight decay of 0.0": with_record(GOOD, "opt_weight_decay", value=0.0),
    "open": OPEN,
    "open, other optimizers": with_record(
        with_record(OPEN, "opt_name", value="Lion"), "opt_sparse_name", value="none at all"
    ),
    "open, other warm-up and length": with_record(
        with_record(OPEN, "opt_learning_rate_warmup_steps", value=7), "max_sequence_length", value=128
    ),
    "open, two rates": lr(OPEN, 0.9e-6, 1.2e-6),
    "open, evaluations anywhere": shift_evaluations(OPEN, 12345),
    "open, nothing for a free key": with_record(OPEN, "opt_adam_beta_1", value=None),
}
REJECTED: dict[str, tuple[list[Record], str]] = {
    "train_samples": (with_record(GOOD, keys.TRAIN_SAMPLES, value=2290835422), "HP101"),
    "eval_samples": (with_record(GOOD, keys.EVAL_SAMPLES, value=2058203), "HP101"),
    "sequence length": (with_record(GOOD, "max_sequence_length", value=2048), "HP101"),
    "optimizer in lower case": (with_record(GOOD, "opt_name", value="adam"), "HP101"),
    "beta": (with_record(GOOD, "opt_adam_beta_1", value=0.9), "HP101"),
    "clipping": (with_record(GOOD, "opt_gradient_clip_norm", value=2.0), "HP101"),
    "rate too low": (lr(GOOD, 0.49e-6), "HP101"),
    "rate too high": (lr(GOOD, 1.51e-6), "HP101"),
    "rate of another batch size": (lr(LARGE, 1e-6), "HP101"),
    "sparse rate of its own": (lr(GOOD, 1e-6, 1.1e-6), "HP101"),
    "rate above the batch size": (last_first(GOOD, LR), "HP101"),
    "evaluation off the grid": (
        with_record(GOOD, keys.EVAL_ACCURACY, 1, metadata={"samples_count": 26 * 2293760 + 1}),
        "CA106",
    ),
    "first evaluation too early": (shift_evaluations(GOOD, -2293760), "CA106"),
    "first evaluation too late": (shift_evaluations(GOOD, 2293760), "CA106"),
    "no samples_count": (with_record(GOOD, keys.EVAL_ACCURACY, 1, metadata={"samples_count": None}), "CA102"),
    "just under the target": (with_record(GOOD, keys.EVAL_ACCURACY, -1, value=0.7499999), "QU102"),
    "above 1": (with_record(GOOD, keys.EVAL_ACCURACY, 0, value=1.5), "ST105"),
    "unknown precision": (with_record(GOOD, "lowest_numerical_precision_in_attn", value="bf16"), "ST105"),
    "no ranks": (with_record(GOOD, "tensor_parallelism", value=0), "ST105"),
    "no configuration": (with_record(GOOD, "config_filename", value=""), "ST105"),
    **{f"closed without {key}": (without(GOOD, key), "ST104") for key in DISCLOSED},
    **{f"closed without {key}": (without(GOOD, key), "ST104") for key in V4.closed},
    **{f"open without {key}": (without(OPEN, key), "ST104") for key in V4.open},
    "open, rate too high": (lr(OPEN, 1.51e-6, 1e-6), "HP101"),
    "open, sparse rate too low": (lr(OPEN, 1e-6, 0.4e-6), "HP101"),
    "open, train_samples": (with_record(OPEN, keys.TRAIN_SAMPLES, value=7), "HP101"),
    "open, below the target": (with_record(OPEN, keys.EVAL_ACCURACY, -1, value=0.7), "QU102"),
}
STRICTER: dict[str, tuple[list[Record], str]] = {
    "every second evaluation": (
        [r for i, r in enumerate(GOOD) if r["metadata"].get("samples_count") != 26 * 2293760],
        "CA101",
    ),
    "beyond the epoch": (
        with_record(GOOD, keys.EVAL_ACCURACY, -1, metadata={"samples_count": 2293760 * 1000}),
        "QU106",
    ),
    "aborted": (with_record(GOOD, keys.RUN_STOP, metadata={"status": "aborted"}), "QU104"),
}


def judge(
    records: dict[str, list[Record]], folder: Path, ours: Callable[[Path], object]
) -> dict[str, tuple[str, object]]:
    paths = {name: write_log(folder / f"{index}.txt", one) for index, (name, one) in enumerate(records.items())}
    opinions = ask_official_checker(list(paths.values()), "6.1")
    return {
        name: (opinion.outcome, ours(path)) for (name, path), opinion in zip(paths.items(), opinions, strict=True)
    }


@pytest.mark.slow
def test_both_accept_what_the_rules_allow(tmp_path: Path) -> None:
    def ours(path: Path) -> object:
        return [finding for finding in check_log(path).findings if finding.severity == "error"]

    assert judge(ACCEPTED, tmp_path, ours) == dict.fromkeys(ACCEPTED, ("valid", []))


@pytest.mark.slow
def test_both_reject_what_they_forbid_and_this_one_says_by_which_rule(tmp_path: Path) -> None:
    def ours(path: Path) -> object:
        return {finding.code for finding in check_log(path).findings if finding.severity == "error"}

    for name, (outcome, codes) in judge({k: v[0] for k, v in REJECTED.items()}, tmp_path, ours).items():
        assert outcome == "invalid", name
        assert isinstance(codes, set) and REJECTED[name][1] in codes, (name, codes)


def test_stricter_where_the_official_checker_does_not_look(tmp_path: Path) -> None:
    def ours(path: Path) -> object:
        return {finding.code for finding in check_log(path).findings if finding.severity == "error"}

    for name, (outcome, codes) in judge({k: v[0] for k, v in STRICTER.items()}, tmp_path, ours).items():
        assert outcome == "valid", name
        assert isinstance(codes, set) and STRICTER[name][1] in codes, (name, codes)


@pytest.mark.parametrize(("batch_size", "first_point"), [(8192, 25), (16384, 31), (32768, 41)])
def test_grid_is_the_one_of_the_official_comment(batch_size: int, first_point: int) -> None:
    samples = 2290835423
    interval = V4.steps_between_evals(samples, batch_size) * batch_size
    assert interval == -(-samples // (1000 * batch_size)) * batch_size
    assert V4.first_eval_samples(samples, batch_size) == first_point * interval


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_size", "num_evals", "outcome"),
    [(8192, 6, "passed"), (8192, 4, "failed"), (12288, 6, "passed"), (16384, 7, "passed"), (16384, 3, "failed"),
     (32768, 9, "passed"), (65536, 9, "missing"), (4096, 9, "passed")],
)  # fmt: skip
def test_sets_are_scored_in_samples_like_the_official_rcp_checker(
    batch_size: int, num_evals: int, outcome: str, tmp_path: Path
) -> None:
    from mlperf_logging.rcp_checker import rcp_checker

    runs = make_runs(V4, ours=False, num_evals=num_evals, global_batch_size=batch_size)
    folder = write_set(tmp_path, V4, runs, ours=False)
    passed, _, factor = rcp_checker.check_directory(
        f"{folder}/", "training", "6.1.0", False, False, rcp_pass="pruned_rcps"
    )
    ours = score_runs(tuple(read_run_result(to_log(run), V4) for run in runs), V4, "6.1")
    assert (ours.rcp_outcome, ours.rcp_outcome == "passed") == (outcome, passed), ours.rcp_reason
    assert "samples" in (ours.rcp_reason or "") or outcome == "missing"
    if passed:
        assert ours.rcp_factor == pytest.approx(factor, rel=1e-12)
        assert ours.score_s is not None and ours.olympic_mean_s is not None
        assert ours.score_s == pytest.approx(ours.olympic_mean_s * factor)


@pytest.mark.slow
def test_what_they_reject_is_in_the_row_of_the_rule_that_rejects_it(tmp_path: Path) -> None:
    cases = {name: case for name, case in REJECTED.items() if " without " not in name}
    paths = [write_log(tmp_path / f"{index}.txt", records) for index, (records, _) in enumerate(cases.values())]
    for name, verdict in zip(cases, with_second_opinion([check_log(path) for path in paths]), strict=True):
        found = {row.family: row for row in compare_opinions(verdict)}
        assert found[cases[name][1][:2]].theirs.startswith("rejects it: "), name
        assert not [row for row in found.values() if row.agreement == "differ" and "error" not in row.ours], name
    (accepted,) = with_second_opinion([check_log(write_log(tmp_path / "good.txt", GOOD))])
    assert next(row.theirs for row in compare_opinions(accepted) if row.family == "CA") == "accepts it"
