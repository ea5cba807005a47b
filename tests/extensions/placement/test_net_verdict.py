"""What is said of a cost net: its figures first, then whether it is used."""

from typing import Any

import pytest

from harness.extensions.placement.net_verdict import say_verdict, tabulate_verdict
from reference_models.distributed.search.net import CostLayers, Net


@pytest.mark.parametrize(
    ("shown", "is_measured", "said"),
    [
        ({"excess": (-0.01, 0.02), "gain": (0.01, 0.02)}, True,
         "and measuring the same sets again by 4.0 %; the difference is −1.0 % to 2.0 % (95 %, bootstrap): that is "
         "not shown to be more than the noise, so nothing is left to learn, sums are used, and the cost net is not."),
        ({"excess": (0.02, 0.1), "gain": (-0.01, 0.02)}, True,
         "the cost net is wrong by 5.0 %, less than sums by −1.0 % to 2.0 % (95 %, bootstrap): no gain is shown, so "
         "sums are used, and the net is not."),
        ({"excess": (0.02, 0.1), "gain": (0.01, 0.02), "spread": 0.3}, True,
         "less than sums by 1.0 % to 2.0 % (95 %, bootstrap): it is used. Rounds of a measured set lay 30.0 % apart "
         "(median)."),
        ({"excess": (0.0, 0.0), "gain": (-0.1, -0.01)}, False,
         "held out: nothing is left to learn, sums are used, and the cost net is not."),
    ],
)  # fmt: skip
def test_the_figures_come_before_the_verdict(shown: dict[str, Any], is_measured: bool, said: str) -> None:
    net = Net(
        layers=CostLayers(), batch_size=1, num_sets=200, error=0.05, additive_error=0.1, repeat_error=0.04, **shown
    )
    text = say_verdict(net, is_measured=is_measured)
    what = "measured" if is_measured else "modelled"
    assert text.startswith(
        f"Adding up the {what} costs of single tables is wrong by 10.0 % on 40 sets of tables held out"
    )
    assert text.endswith(said)
    rows = tabulate_verdict(net, is_measured=is_measured).rows
    assert [row[1] for row in rows] == [0.04, 0.1, 0.05][not is_measured :]
    assert rows[-1][3:] == shown["gain"]
