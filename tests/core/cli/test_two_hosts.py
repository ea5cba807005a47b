"""Two machines, as two network namespaces joined by one link: the bytes we count are the bytes that pass."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from ranks_builder import needs_torchrec
from waiting import HANG_S

ADDRESSES = ("10.77.0.1", "10.77.0.2")
# Bytes that a limited link lets pass at once after a rest; at most a step's, so that every step feels the limit.
BURST = 16_384
WARM_UP_STEPS, STEPS_AFTER_THE_RUN = 3, 11


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Names of two namespaces with one address each, on devices `link0` and `link1`."""
    if shutil.which("ip") is None:
        pytest.skip("needs ip (iproute2)")
    token = uuid4().hex[:8]
    names = (f"dlrmbench-a-{token}", f"dlrmbench-b-{token}")
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "link0", "netns", names[0], "type", "veth", "peer", "name", "link1", "netns", names[1])
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
        for index, name in enumerate(names):
            ip("-n", name, "addr", "add", f"{ADDRESSES[index]}/24", "dev", f"link{index}")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", f"link{index}", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def sent_bytes(host: str, index: int) -> int:
    path = f"/sys/class/net/link{index}/statistics/tx_bytes"
    answer = subprocess.run(["ip", "netns", "exec", host, "cat", path], check=True, capture_output=True, text=True)
    return int(answer.stdout)


def train_across(hosts: tuple[str, str], data_root: Path, run_set: Path, *more: str) -> dict[str, Any]:
    """One run of dlrm_tiny with a rank on each host; its record."""
    ranks = []
    for index, host in enumerate(hosts):
        launcher = [
            "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(index), "--nproc-per-node", "1",
            "--master-addr", ADDRESSES[0], "--master-port", "29517", "--local-addr", ADDRESSES[index],
        ]  # fmt: skip
        command = [
            "-m", "harness", "run", "dlrm_tiny", "--data", str(data_root), "--implementation", "torchrec",
            "--sharding", "table_wise", "-n", "1", "--seed", "5", "--threads", "1", "--run-index", "0",
            "-o", str(run_set), *more,
        ]  # fmt: skip
        ranks.append(
            subprocess.Popen(
                ["ip", "netns", "exec", host, sys.executable, *launcher, *command],
                env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": f"link{index}"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [rank.communicate(timeout=HANG_S)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)
    record: dict[str, Any] = json.loads((run_set / "extra" / "run_0" / "attempt_0" / "run.json").read_text())
    assert record["status"] == "success"
    return record


def expected_bytes(record: dict[str, Any], batch_size: int, rank: int) -> float:
    """What our counts say that a rank sent in the whole run: steps, evaluations, and what is measured after it."""
    exchange = record["exchange"]
    last = record["blocks"][-1]
    num_steps = (last["first_sample"] + last["num_samples"]) / batch_size + WARM_UP_STEPS + STEPS_AFTER_THE_RUN
    evaluation = exchange["bytes_per_evaluation"]
    shared = sum(value for kind, value in evaluation.items() if kind != "evaluation_gather")
    per_evaluation = shared / 2 + (evaluation["evaluation_gather"] if rank == 1 else 0)
    return float(
        exchange["link_sent_bytes"]
        + num_steps * exchange["sent_bytes_per_step_by_rank"][rank]
        + (len(record["evaluations"]) + 1) * per_evaluation
    )


@needs_torchrec
@pytest.mark.long
def test_our_byte_counts_are_those_of_the_link(hosts: tuple[str, str], data_root: Path, tmp_path: Path) -> None:
    before = [sent_bytes(host, index) for index, host in enumerate(hosts)]
    record = train_across(hosts, data_root, tmp_path / "set")
    assert record["exchange"]["sent_bytes_per_step_by_rank"][0] >= 100_000
    for index, host in enumerate(hosts):
        passed = sent_bytes(host, index) - before[index]
        assert passed == pytest.approx(expected_bytes(record, 512, index), rel=0.10)


@needs_torchrec
@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--comm", "fp16"), ("--grad-comm", "topk:0.01")])
def test_a_slow_link_is_filled_by_the_same_bytes(
    hosts: tuple[str, str], data_root: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    if shutil.which("tc") is None:
        pytest.skip("needs tc (iproute2)")
    for index, host in enumerate(hosts):
        limit = ["tc", "qdisc", "add", "dev", f"link{index}", "root", "tbf", "rate", "100mbit"]
        command = ["ip", "netns", "exec", host, *limit, "burst", str(BURST), "latency", "400ms"]
        limited = subprocess.run(command, check=False, capture_output=True, text=True)
        if limited.returncode:
            pytest.skip(f"the link cannot be limited here: {limited.stderr.strip()}")
    before = [sent_bytes(host, index) for index, host in enumerate(hosts)]
    record = train_across(hosts, data_root, tmp_path / "set", *more)
    for index, host in enumerate(hosts):
        passed = sent_bytes(host, index) - before[index]
        assert passed == pytest.approx(expected_bytes(record, 512, index), rel=0.10)
    # 100 Mbit/s carry 12.5 MB/s, and a link that rested lets one burst pass at once: no step was faster than that.
    held_back = record["exchange"]["sent_bytes_per_step_by_rank"][0] - BURST
    assert held_back > 0
    assert record["exchange"]["step_s"] >= held_back / 13.0e6
