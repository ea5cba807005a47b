"""Coverage-guided fuzzing of the parser and the log rules with atheris: `python fuzz_coverage.py NUM_INPUTS SEED`.

Started by test_rules_fuzz_coverage.py in a process of its own, since atheris instruments what is imported under it.
"""

import sys
import tempfile
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["rules"]):
    from fuzz_inputs import LOGS, keys_of, mutate_system
    from fuzz_oracles import JUDGED_BY, bounded, judge_log_bytes, judge_system_bytes

NUM_SEED_FILES = 60
MAX_BYTES = 16384


def judge(data: bytes) -> None:
    """The first byte chooses what the rest is, and by which rules a log is judged."""
    if not data:
        return
    with bounded():
        if data[0] % 8 == 7:
            judge_system_bytes(data[1:], FOLDER)
        else:
            judge_log_bytes(data[1:], data[0] % len(JUDGED_BY))


def write_corpus(folder: Path) -> Path:
    """Mutated inputs to begin with, and the words of logs, in libFuzzer's forms."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for seed in range(NUM_SEED_FILES):
        random = Random(f"corpus {seed}")
        make = [*LOGS.values(), mutate_system][seed % 4]
        (corpus / str(seed)).write_bytes(bytes([7 if seed % 4 == 3 else seed % 7]) + make(random)[: MAX_BYTES - 1])
    words = [
        ":::MLLOG ",
        "metadata",
        "value",
        "time_ms",
        "event_type",
        "samples_count",
        "epoch_num",
        *keys_of("dlrmv4"),
    ]
    (folder / "words").write_text("".join(f'"{word}"\n' for word in words))
    return corpus


if __name__ == "__main__":
    num_inputs, seed = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as name:
        FOLDER = Path(name)
        corpus = write_corpus(FOLDER)
        # libFuzzer ends the process by itself, with 77 where an exception came out and 0 where none did.
        options = [
            f"-runs={num_inputs}",
            f"-seed={seed}",
            f"-max_len={MAX_BYTES}",
            "-timeout=20",
            "-rss_limit_mb=2048",
        ]
        atheris.Setup(
            [sys.argv[0], *options, f"-dict={FOLDER}/words", f"-artifact_prefix={FOLDER}/", str(corpus)], judge
        )
        atheris.Fuzz()
