"""Checkpoints on disk: whole or not there, as large as their closed form, served, and what commands say of them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpointing import ABOUT, DIGEST, begin
from places import TESTS
from toy_clicks import BATCH, MULTI_HOT, NUM_EMBEDDINGS, spec_maker, write_dataset
from waiting import HANG_S

from harness.config.run_config import Override, resolve
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.checkpoints import CheckpointFolder, read_checkpoint
from harness.measure.kinds import find_kind
from reference_models.process.artifact import make_npy_header
from reference_models.process.errors import ConfigError
from reference_models.training.checkpoints import TouchedRows, is_base_due, list_state
from rules.records.codec import decode
from rules.records.kept.checkpoint import CheckpointManifest

pytestmark = pytest.mark.numeric

BUILDERS = TESTS / "builders"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_dataset(folder)
    return folder


def store_in(folder: Path, **about: Any) -> CheckpointFolder:
    folder.mkdir(exist_ok=True)
    return CheckpointFolder(root=folder, about={**ABOUT, **about})


def state_of(loop: Any) -> dict[str, torch.Tensor]:
    tables, others = list_state(loop)
    found = {**{f"model.{name}": table for name, table in tables.items()}, **others}
    return {name: tensor.clone() for name, tensor in found.items()}


def is_equal(restored: Any, expected: Any) -> bool:
    return restored.keys() == expected.keys() and all(
        torch.equal(restored[name], expected[name]) for name in expected
    )


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def file_bytes(dtype: str, *shape: int) -> int:
    return (
        len(make_npy_header(dtype, shape)) + int(np.prod(shape)) * np.dtype(dtype).itemsize if np.prod(shape) else 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["full", "one_shot", "consecutive", "intermittent"])
@pytest.mark.parametrize(("bits", "row_bytes"), [(32, 16), (8, 4 + 8), (4, 2 + 4), (2, 1 + 4)])
def test_bytes_are_those_of_the_closed_form(
    policy: str, bits: int, row_bytes: int, toy: Path, tmp_path: Path
) -> None:
    """Of the ids alone: rows that changed, their sums of squares, a bitmap or ids, and all dense state."""
    store = store_in(tmp_path / "c", bits=bits, policy=policy)
    loop, made = begin(spec_maker(toy)(), store, bits=bits, policy=policy)
    ids = [loop.data.train.read(at * BATCH, (at + 1) * BATCH).indices for at in range(6)]
    loop.train(6)
    made.finish()
    _, others = list_state(loop)
    tables = {f"state.embedding_bags.{table}.weight.sum" for table in range(3)}
    dense = sum(
        file_bytes(str(value.numpy().dtype), *value.shape) for name, value in others.items() if name not in tables
    )
    touched, shares, sizes, chain = TouchedRows(NUM_EMBEDDINGS, MULTI_HOT), [], [], []
    for index, each in enumerate(ids):
        touched.mark(each)
        is_base = index == 0 or is_base_due(policy, shares)
        changed = list(NUM_EMBEDDINGS) if is_base else [len(rows) for rows in touched.list_rows()]
        shares = [] if is_base else [*shares, sum(changed) / sum(NUM_EMBEDDINGS)]
        embeddings = total = 0
        for rows, num_rows in zip(changed, NUM_EMBEDDINGS, strict=True):
            codes = ("float32", 4) if bits == 32 else ("uint8", row_bytes)
            embeddings += file_bytes(codes[0], rows, codes[1])
            if not is_base and rows:
                is_bitmap = -(-num_rows // 8) <= 4 * rows
                embeddings += file_bytes("uint8", -(-num_rows // 8)) if is_bitmap else file_bytes("int32", rows)
            total += file_bytes("float32", rows, 4)
        if is_base or policy == "consecutive":
            touched.is_touched[:] = False
        chain = [] if is_base else chain if policy == "consecutive" else chain[:1]
        chain = [*chain, index]
        place = tmp_path / "c" / str(index)
        sizes.append(embeddings + total + dense + (place / "manifest.json").stat().st_size)
        found = made.taken[index]
        on_disk = bytes_in(place)
        assert found["embedding_bytes"] == embeddings and found["num_bytes"] == on_disk == sizes[-1]
        assert found["restore_bytes"] == sum(sizes[part] for part in chain)
        manifest = decode(tmp_path / "c" / str(index) / "manifest.json", CheckpointManifest)
        assert isinstance(manifest, CheckpointManifest) and manifest.chain == tuple(chain)
        assert found["disk_bytes"] == found["kept_bytes"] == sum(sizes)
    full = sum(file_bytes("float32", rows, 4) for rows in NUM_EMBEDDINGS)
    manifest_bytes = (tmp_path / "c/0/manifest.json").stat().st_size
    assert (made.full_embedding_bytes, made.full_bytes) == (full, 2 * full + dense + manifest_bytes)


@pytest.mark.parametrize(
    ("policy", "keep", "expected"),
    [
        ("one_shot", 1, [{0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}]),
        pytest.param("one_shot", 2, [{0}, {0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 4}], marks=pytest.mark.slow),
        pytest.param("full", 2, [{0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}], marks=pytest.mark.slow),
        pytest.param("consecutive", 1, [{*range(each + 1)} for each in range(5)], marks=pytest.mark.slow),
        pytest.param("intermittent", 1, None, marks=pytest.mark.slow),
    ],
)
def test_what_none_of_the_newest_rests_on_is_removed(
    policy: str, keep: int, expected: list[set[int]] | None, toy: Path, tmp_path: Path
) -> None:
    root = tmp_path / "c"
    loop, made = begin(spec_maker(toy)(), store_in(root, bits=32, policy=policy), policy=policy, keep=keep)
    for at in range(5):
        loop.train(1)
        made._wait()
        present = {int(path.name) for path in root.iterdir()}
        if expected is None:
            manifest = decode(root / str(at) / "manifest.json", CheckpointManifest)
            assert isinstance(manifest, CheckpointManifest) and present == set(manifest.chain)
        else:
            assert present == expected[at]
        assert made.taken[-1]["kept_bytes"] == sum(bytes_in(root / str(each)) for each in present)
        before = made.taken[-2]["kept_bytes"] if at else 0
        assert made.taken[-1]["disk_bytes"] == before + made.taken[-1]["num_bytes"]
        assert is_equal(read_checkpoint(root / str(at), DIGEST), state_of(loop))
    made.finish()
    assert made.error is None and made.restore_s is not None


@pytest.mark.slow
@pytest.mark.parametrize("num_killed", [3, pytest.param(50, marks=pytest.mark.long)])
def test_after_a_kill_the_newest_whole_checkpoint_restores(num_killed: int, tmp_path: Path) -> None:
    """Whenever that is: what was being written is a draft, which nobody takes for a checkpoint."""
    script = [sys.executable, str(BUILDERS / "checkpointing.py"), str(tmp_path), str(num_killed)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    loop, _ = begin(spec_maker(tmp_path / "data")(), store_in(tmp_path / "unused"), steps=50)
    states = []
    for _ in range(50):
        loop.train(1)
        states.append(state_of(loop))
    num_restored = 0
    for number in range(num_killed):
        whole = sorted(int(path.name) for path in (tmp_path / str(number)).iterdir() if path.name.isdigit())
        assert number % 3 or whole == list(range(len(whole))), "all of them are kept"
        for index in whole:
            assert is_equal(read_checkpoint(tmp_path / str(number) / str(index), DIGEST), states[index])
            num_restored += 1
    assert num_restored or num_killed < 50, "no child lived long enough to make one"


@pytest.fixture(scope="module")
def chain(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base and an increment."""
    root = tmp_path_factory.mktemp("chain") / "checkpoints"
    loop, made = begin(spec_maker(toy)(), store_in(root, bits=8), bits=8)
    loop.train(2)
    made.finish()
    assert made.error is None
    return root


def truncate(root: Path) -> None:
    path = root / "0" / "codes.embedding_bags.0.weight.npy"
    path.write_bytes(path.read_bytes()[:-1])


def flip(root: Path) -> None:
    path = root / "0" / "codes.embedding_bags.0.weight.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def change(place: str, **members: Any) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        path = root / place / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}))

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (lambda root: shutil.rmtree(root / "0"), ExitCode.INPUT, "0/manifest.json"),
        (truncate, ExitCode.INPUT, "0/codes.embedding_bags.0.weight.npy"),
        (flip, ExitCode.INPUT, "0/codes.embedding_bags.0.weight.npy: found sha256"),
        (change("0", seed=2), ExitCode.INPUT, "0: a checkpoint of another run"),
        (change("1", chain=[1]), ExitCode.INPUT, "rows that the checkpoint before it does not have"),
        (change("1", chain=[1, 0]), ExitCode.INPUT, "a checkpoint of another run"),
        (change("1", chain=[]), ExitCode.INPUT, "chain"),
        (change("1", bits=3), ExitCode.INPUT, "bits"),
        (change("1", bits=4), ExitCode.INPUT, "0: a checkpoint of another run"),
        (change("1", definition_sha256="e" * 64), ExitCode.USAGE, "another definition"),
    ],
)
def test_what_is_damaged_or_does_not_belong_together_is_refused(
    damage: Callable[[Path], None], code: ExitCode, words: str, chain: Path, tmp_path: Path
) -> None:
    root = tmp_path / "checkpoints"
    shutil.copytree(chain, root)
    assert read_checkpoint(root / "1", DIGEST)["model.embedding_bags.0.weight"].shape == (40, 4)
    damage(root)
    with pytest.raises(HarnessError) as caught:
        read_checkpoint(root / "1", DIGEST)
    assert caught.value.exit_code == code and words in str(caught.value)


def asked(**values: Any) -> list[Override]:
    return [Override(key=f"checkpoint.{key}", value=value, source="--set") for key, value in values.items()]


@pytest.mark.parametrize(
    ("kind", "benchmark", "values", "words"),
    [
        ("training", "dlrm_tiny", {"restores": 2}, "checkpoint.restores is for --quality"),
        ("throughput", "dlrm_tiny", {"restores": 2}, "checkpoint.restores is for --quality"),
        ("quality", "dlrmv4_small", {"every": "5%"}, "hstu looks up the events of a sequence one by one"),
        ("quality", "d2nn_small", {"every": "5%"}, "d2nn has no embedding tables"),
        ("profile", "dlrm_tiny", {"every": "5%"}, "is only for training"),
        ("quality", "dlrm_tiny", {"every": "5"}, "checkpoint.every is '5', expected a number of samples"),
        ("quality", "dlrm_tiny", {"keep": 0}, "checkpoint.keep is 0, expected"),
        ("quality", "dlrm_tiny", {"keep": "newest"}, "checkpoint.keep is 'newest', expected"),
    ],
)
def test_what_has_no_checkpoints_refuses_them(kind: str, benchmark: str, values: Any, words: str) -> None:
    found = find_kind(kind)
    with pytest.raises(ConfigError, match=words) as caught:
        found.check(found.resolve(benchmark, asked(**values), None).workload)
    assert "checkpoint" in str(caught.value)


@pytest.mark.slow
def test_implementations_of_several_ranks_refuse_them() -> None:
    pytest.importorskip("torchrec")
    torchrec = Override(key="runtime.implementation", value="torchrec", source="--set")
    kind = find_kind("throughput")
    with pytest.raises(ConfigError, match="'torchrec' spreads rows of tables over ranks"):
        kind.check(kind.resolve("dlrm_tiny", [torchrec, *asked(every="5%")], None).workload)


def test_they_are_no_part_of_the_problem_and_all_on_record() -> None:
    plain, checkpointed = resolve("dlrm_tiny", ()), resolve("dlrm_tiny", asked(bits=4))
    assert plain.benchmark.definition_sha256 == checkpointed.benchmark.definition_sha256
    values = {key: given["value"] for key, given in checkpointed.values().items() if key.startswith("checkpoint.")}
    assert values == {
        "checkpoint.every": "5%",
        "checkpoint.policy": "intermittent",
        "checkpoint.bits": 4,
        "checkpoint.rounding": "plain",
        "checkpoint.keep": "all",
        "checkpoint.restores": 0,
    }
    assert not any(key.startswith("checkpoint.") for key in plain.values())
    never = resolve("dlrm_tiny", asked(every="never"))
    assert never.workload.checkpoint is None and never.values()["checkpoint.every"]["value"] == "never"
