"""Claims about GPUs, sentence by sentence, and which step proves or disproves each. Standard library only."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["proved", "disproved", "not run"]
VERDICTS: tuple[Verdict, ...] = ("proved", "disproved", "not run")


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence. `step` names the only step whose findings count for it."""

    name: str
    sentence: str
    step: str


CLAIMS: tuple[Claim, ...] = (
    Claim("agrees", "one GPU trains as a CPU does: AUC within 0.001 in fp32, 0.01 in tf32, 0.05 in bf16", "tests"),
    Claim("equal", "50 steps of `optimized` end where `reference` does, by interaction, optimizer, width", "tests"),
    Claim("repeats", "`optimized` repeats bit for bit in fp32 and bf16: equal seeds end with equal weights", "tests"),
    Claim("waits", "a replayed step waits for no result of the GPU, only for the step before the last", "tests"),
    Claim("large", "tables of more than 2^31 numbers train like small ones", "tests"),
    Claim("kernels", "Triton's kernels compile here, and end in torch's numbers, at full shape too", "kernels"),
    Claim("faster", "`optimized` beats `reference` in fp32, tf32, bf16; a captured step an eager one", "throughput"),
    Claim("million", "full-shape DLRM-DCNv2, rows x 0.1, bf16: 1.2 M samples/s or more (H100, H200)", "throughput"),
    Claim("reading", "reading and copying batches costs at most 10 % of that step", "throughput"),
    Claim("errors", "a GPU that is not there is exit 2, too little of its memory exit 9, each in one line", "errors"),
    Claim("target", "`dlrm_small` reaches its target, with a VALID log, joules and the GPU's peak memory", "run"),
    Claim("phases", "`profile`'s phases name 90 % of the step, and none is faster than its limit", "profile"),
    Claim("fits", "full-size DLRM-DCNv2, row-wise Adagrad, batch 65,536: reserves <= 115 GB (H200)", "full_size"),
    Claim("collectives", "collective calls are timed until the GPU is done, not until they are queued", "nccl"),
    Claim("torchrec", "`torchrec` trains `dlrm_tiny` to its target on one GPU", "nccl"),
)
BY_NAME = {claim.name: claim for claim in CLAIMS}
