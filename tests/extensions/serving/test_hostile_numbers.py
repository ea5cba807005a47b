"""Numbers that serving cannot use are refused where they are given."""

import pytest
from command import Command


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400"])
@pytest.mark.parametrize("key", ["serve.target_latency_ms", "serve.duration_s"])
def test_what_is_no_finite_number_is_no_value_of_a_key(inside: Command, key: str, value: str) -> None:
    done = inside("plan", "dlrm_tiny", "--no-measure", "--set", f"{key}={value}")
    assert done.returncode == 2 and f"{key} is" in done.stderr, done.stderr


def test_more_runs_than_have_room_for_their_seeds_are_refused(inside: Command) -> None:
    done = inside("serve", "dlrm_tiny", "-n", 1 << 63)
    assert done.returncode == 2 and "is not in the range" in done.stderr, done.stderr


def test_a_duration_that_no_number_holds_is_none(inside: Command) -> None:
    done = inside("simulate", "dlrm_tiny", "--target-latency", "9" * 400 + "s")
    assert done.returncode == 2 and "is too large" in done.stderr and len(done.stderr) < 500, done.stderr
