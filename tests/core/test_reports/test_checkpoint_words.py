"""What is said of checkpoints in a sentence: how many, how large, for how long training stands still."""

from typing import Any

from reports.facts.checkpoints import checkpoint_words


def row(name: str = "a", **given: Any) -> dict[str, Any]:
    return {
        "Configuration": name, "Bits": 8, "Checkpoints": 20, "All written": 20 << 20, "Embeddings written": 15 << 20,
        "All, × fewer": 2.0, "Embeddings, × fewer": 2.1, "To restore, × less": 0.5, "Stall": 0.0137,
        "Waiting": 0.01,
    } | given  # fmt: skip


def test_one_configuration_says_number_size_and_stall() -> None:
    words = checkpoint_words([row()])
    assert words.startswith(
        "8 bits: 20 checkpoints of 1.00 MiB on average, each of which holds training up for 23.7 ms; "
        "2.0 × fewer bytes written (embeddings alone 2.1 × fewer), 2.0 times as much capacity to restore the newest."
    )
    assert "against checkpoints of all rows in 32 bits" in words


def test_where_as_many_bytes_are_written_that_is_said() -> None:
    words = checkpoint_words([row(**{"All, × fewer": 1.0, "Checkpoints": 1})])
    assert "1 checkpoint of 20.00 MiB on average, which holds training up" in words
    assert words.endswith("as many bytes are written as by checkpoints of all rows in 32 bits.")


def test_of_many_configurations_sizes_are_left_to_the_table() -> None:
    words = checkpoint_words([row(name) for name in "abc"])
    assert "a: 2.0 × fewer bytes written" in words and "on average" not in words
    assert checkpoint_words([]) == ""
