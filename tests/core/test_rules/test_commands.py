"""Command lines from words: options and flags are taken out with their values, all else stays in its order."""

import pytest

from rules.records.experiment import without_options


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("dlrmbench tune x --trials 4 --threads 1", "dlrmbench tune x --threads 1"),
        ("dlrmbench tune x --trials=4 -q --set a.b=1", "dlrmbench tune x --set a.b=1"),
        ("dlrmbench tune x --trials", "dlrmbench tune x"),
    ],
)
def test_options_and_flags_are_taken_out_of_a_command(given: str, left: str) -> None:
    assert without_options(given.split(), ("--trials",), ("-q",)) == left.split()
