"""Out of memory is exit code 9 with one line, in whatever words a device's libraries say it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.foundation.errors import ExitCode, compose_message, exit_code_of, is_out_of_memory
from harness.measure import job as jobs
from harness.measure.job import explain_and_end, measure
from harness.measure.kinds import Job, find_kind
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from rules.records.kinds import KIND_MODULES

AcceleratorError: Callable[[str], Exception] = getattr(torch, "AcceleratorError", RuntimeError)


def raised(error: Exception, *, of: Exception | None = None, hides: bool = False) -> Exception:
    """`error` as it arrives, where it came up while `of` was being handled; `hides` as `raise ... from None`."""
    try:
        try:
            if of is not None:
                raise of
        except Exception:
            if hides:
                raise error from None
            raise error  # noqa: B904
        raise error
    except Exception as arrived:
        return arrived


OUT_OF_MEMORY = {
    "torch's allocator": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    "CUDA, of pinned memory, a context, a graph": AcceleratorError("CUDA error: out of memory"),
    "cuBLAS": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "NCCL": RuntimeError("NCCL error, ncclUnhandledCudaError. Last error:\nCuda failure 2 'out of memory'"),
    "the CPU's allocator": RuntimeError("[enforce fail at alloc_cpu.cpp:124] .: can't allocate memory: you tried"),
    "Python": MemoryError(),
    "what ended a capture": raised(
        RuntimeError("CUDA error: operation failed due to a previous error during capture"),
        of=torch.OutOfMemoryError("CUDA out of memory."),
    ),
    "a chain of three": raised(
        RuntimeError("worker failed"), of=raised(RuntimeError("capture failed"), of=MemoryError())
    ),
}


@pytest.mark.parametrize("name", OUT_OF_MEMORY)
def test_is_exit_code_9_in_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = OUT_OF_MEMORY[name]

    def fail() -> None:
        raise error

    assert exit_code_of(error) == explain_and_end(fail) == ExitCode.RESOURCES
    said = capsys.readouterr().err
    assert said.startswith("out of memory. Use a smaller batch") and said.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        raised(RuntimeError("something else"), of=MemoryError(), hides=True),
        raised(KeyError("a name"), of=RuntimeError("CUDA error: out of memory")),
    ],
)
def test_other_defects_stay_defects(error: Exception) -> None:
    assert not is_out_of_memory(error) and exit_code_of(error) is None


def test_what_was_asked_for_wrongly_keeps_its_own_words() -> None:
    error = raised(ConfigError("ask otherwise"), of=MemoryError())
    assert (exit_code_of(error), compose_message(error)) == (ExitCode.USAGE, "ask otherwise")


@pytest.mark.parametrize("name", KIND_MODULES)
def test_the_child_of_every_kind_ends_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: Any) -> None:
        raise OUT_OF_MEMORY["what ended a capture"]

    kind = find_kind(name)
    monkeypatch.setattr(jobs, "describe_code", lambda: None)
    failing, asked = replace(kind, run=run), Job(tables={}, definition_path="", data_dir="", seed=0, folder="")
    assert explain_and_end(lambda: measure(failing, asked, SingleProcess(), print)) == ExitCode.RESOURCES
