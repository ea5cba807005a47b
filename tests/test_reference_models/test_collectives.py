"""A step's time, split into computing and waiting only where both are known."""

import random

from hypothesis import given
from hypothesis import strategies as st

from reference_models.distributed.traffic import TrafficTimes, computing_s, split_step

TIMES = st.floats(0.0, 10.0)
ROUNDS = st.lists(st.builds(TrafficTimes, TIMES, TIMES, TIMES), min_size=1, max_size=7)


@given(ROUNDS)
def test_the_parts_make_up_the_step_or_are_not_known(rounds: list[TrafficTimes]) -> None:
    times = split_step(rounds)
    compute_s, waited_s = computing_s(times), times.all_to_all_s + times.all_reduce_s
    if compute_s is None:
        assert waited_s > times.step_s - 1e-12
    else:
        assert compute_s >= 0
        assert abs(compute_s + waited_s - times.step_s) < 1e-9


@given(ROUNDS, st.randoms())
def test_the_order_of_rounds_does_not_matter(rounds: list[TrafficTimes], draw: random.Random) -> None:
    shuffled = draw.sample(rounds, len(rounds))
    assert split_step(shuffled) == split_step(rounds)


@given(st.lists(st.builds(TrafficTimes, TIMES, TIMES, TIMES), min_size=2, max_size=6), st.floats(10.0, 1e6))
def test_one_disturbed_round_decides_nothing(rounds: list[TrafficTimes], disturbed_s: float) -> None:
    times = split_step([*rounds, TrafficTimes(disturbed_s, disturbed_s, disturbed_s)])
    for number, value in enumerate(times):
        assert min(one[number] for one in rounds) <= value <= max(one[number] for one in rounds)
