"""A request that a GPU cannot meet ends in a line and an exit code, while another process holds the GPU's memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from findings import Findings
from setting import Setting, last_line

LEAVES_BYTES = 64 << 20
"""Too little for CUDA's context."""


def run(setting: Setting, findings: Findings) -> None:
    problems = [ask_for_another(setting)]
    commands: dict[str, tuple[object, ...]] = {
        "run": ("run", "-n", "1", "-o", "run"),
        "throughput": ("run", "--throughput", "5", "-o", "throughput"),
        "profile": ("profile", "-o", "profile"),
    }
    if setting.is_gpu:
        with held(LEAVES_BYTES), ThreadPoolExecutor() as pool:  # at once: each takes seconds to import torch
            problems += pool.map(lambda name: starve(setting, name, commands[name]), commands)
        problems.append(starve_capture())
    found = [problem for problem in problems if problem]
    figure = f"{len(problems) - len(found)} of {len(problems)} cases" + (f"; {found[0]}" if found else "")
    findings.note(**{f"case {number}": problem for number, problem in enumerate(found)})
    findings.judge(
        "errors", not found, figure, "cuda:99; run, --throughput and profile beside a process that holds the GPU"
    )


def ask_for_another(setting: Setting) -> str:
    """Ask for a GPU that no system has; returns what is wrong with the answer."""
    done = setting.dlrmbench("run", "dlrm_tiny", "--device", "cuda:99", "-n", "1")
    return judge_answer("cuda:99", done.returncode, done.stderr, 2)


def judge_answer(name: str, exit_code: int, stderr: str, expected: int) -> str:
    """Say what is wrong with how a command ended; nothing when it is right."""
    if "Traceback" in stderr:
        return f"{name}: a traceback"
    if exit_code != expected:
        return f"{name}: exit code {exit_code}, expected {expected}: {last_line(stderr)}"
    return "" if "error: " in stderr.lower() else f"{name}: no line says what happened"


def starve(setting: Setting, name: str, words: tuple[object, ...]) -> str:
    """Run a command whose GPU memory is held by this process."""
    verb, *rest = words
    done = setting.dlrmbench(verb, "dlrm_tiny", "--device", "cuda", "--implementation", "optimized", *rest)
    return judge_answer(f"{name} without memory", done.returncode, done.stderr, 9)


@contextmanager
def held(left_bytes: int) -> Iterator[None]:
    """Hold the GPU's memory but for so many bytes."""
    torch.cuda.empty_cache()
    parts = [torch.empty(max(0, torch.cuda.mem_get_info()[0] - left_bytes), dtype=torch.uint8, device="cuda")]
    try:
        yield
    finally:
        parts.clear()
        torch.cuda.empty_cache()


def starve_capture() -> str:
    """Let memory end while the graph is captured; its own error hides why, but for the chain."""
    from jobs_on_gpu import SMALL, build, open_once

    from harness.foundation.errors import exit_code_of
    from reference_models.dlrm import cuda_graph

    opened = open_once(SMALL)
    before, total = cuda_graph.CUDAGraphStep.__init__, torch.cuda.get_device_properties(0).total_memory

    def starving(self: object, *args: object, **options: object) -> None:
        torch.cuda.empty_cache()
        allowed = torch.cuda.memory_reserved() + (1 << 20)
        torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total))
        before(self, *args, **options)  # type: ignore[arg-type]

    cuda_graph.CUDAGraphStep.__init__ = starving  # type: ignore[method-assign]
    try:
        build(SMALL, opened, "optimized", device="cuda")
    except Exception as error:
        code = exit_code_of(error)
        return "" if code == 9 else f"capture without memory: exit code {code}: {type(error).__name__}: {error}"
    finally:
        cuda_graph.CUDAGraphStep.__init__ = before  # type: ignore[method-assign]
        torch.cuda.set_per_process_memory_fraction(1.0)
    return "capture without memory: it was captured"
