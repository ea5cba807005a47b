"""Say whether a trained cost net is used. Its errors on held-out sets of tables are compared with the errors of
adding up the costs of single tables, and with the noise of measurement."""

from typing import TYPE_CHECKING

from harness.foundation.study import Columns, make_table
from reports.text.formatting import percent
from rules.records.study import StudyTable

if TYPE_CHECKING:
    from reference_models.distributed.search.net import Net


def say_verdict(net: "Net", *, is_measured: bool) -> str:
    """Say how wrong added-up costs of single tables are, compared with the noise of measuring again, then whether the
    cost net is used."""
    sums, noise = percent(net.additive_error), percent(net.repeat_error)
    about = f"{net.num_sets // 5} sets of tables held out"
    if not is_measured:
        said = f"Adding up the modelled costs of single tables is wrong by {sums} on {about}"
    else:
        said = (
            f"Adding up the measured costs of single tables is wrong by {sums} on {about}, and measuring the same "
            f"sets again by {noise}; the difference is {_bounds(net.excess)}"
        )
    if not net.has_something_to_learn:
        why = "that is not shown to be more than the noise, so " if is_measured else ""
        return f"{said}: {why}nothing is left to learn, sums are used, and the cost net is not{_say_rounds(net)}."
    gain = f"the cost net is wrong by {percent(net.error)}, less than sums by {_bounds(net.gain)}"
    used = "it is used" if net.is_better else "no gain is shown, so sums are used, and the net is not"
    return f"{said}; {gain}: {used}{_say_rounds(net)}."


def _bounds(bounds: tuple[float, float]) -> str:
    return f"{percent(bounds[0])} to {percent(bounds[1])} (95 %, bootstrap)"


def _say_rounds(net: "Net") -> str:
    return f". Rounds of a measured set lay {percent(net.spread)} apart (median)" if net.spread else ""


def tabulate_verdict(net: "Net", *, is_measured: bool) -> StudyTable:
    """List the errors, on held-out sets of tables, of repeated measurement, of added-up costs and of the cost net,
    with intervals."""
    columns: Columns = (
        ("Prediction", None, "given"), ("Error", "share", "computed"), ("Kendall's tau", None, "computed"),
        ("Less than of sums, from", "share", "computed"), ("To", "share", "computed"),
    )  # fmt: skip
    rows = [
        ("the same sets, measured again", net.repeat_error, None, *net.excess),
        ("single tables added up", net.additive_error, net.additive_tau, None, None),
        ("cost net", net.error, net.tau, *net.gain),
    ]
    held = net.num_sets // 5
    return make_table(
        f"Costs of {held} sets of tables held out of {net.num_sets}, mean error (MAPE), 95 % by bootstrap",
        columns,
        rows if is_measured else rows[1:],
    )
