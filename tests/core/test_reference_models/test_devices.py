"""A device that is not there, and a precision that a device lacks, are errors that say what to do."""

from types import SimpleNamespace

import pytest
import torch

from reference_models.process.errors import ConfigError, DeviceError
from reference_models.training.devices import find_device, set_precision

CPU = torch.device("cpu")


def test_cpu_is_always_there() -> None:
    assert find_device("cpu") == CPU


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cuda:-1", "meta", "cpu cuda"])
def test_unknown_devices_are_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(DeviceError, match=r"expected 'cpu', 'cuda' or 'cuda:N'"):
        find_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_cuda_without_a_gpu_says_what_to_use_instead(name: str) -> None:
    with pytest.raises(DeviceError, match=rf"device '{name}'.*Use --device cpu"):
        find_device(name)


def test_cpus_have_no_tf32() -> None:
    with pytest.raises(ConfigError, match=r"runtime\.precision is 'tf32', expected 'fp32' or 'bf16' on cpu"):
        set_precision(CPU, "tf32")


def test_fp32_means_full_float32_matmul() -> None:
    assert set_precision(CPU, "fp32") is False
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_has_three_precisions() -> None:
    device = find_device("cuda")
    assert device.index is not None
    assert [set_precision(device, precision) for precision in ("tf32", "bf16", "fp32")] == [False, True, False]
    with pytest.raises(DeviceError, match="numbered from 0"):
        find_device("cuda:99")


@pytest.mark.parametrize("name", ["mps", "xpu", "hip"])
def test_other_accelerators_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(DeviceError, match=rf"runtime\.device is '{name}', expected 'cpu', 'cuda' or 'cuda:N'"):
        find_device(name)


def test_rocm_is_refused_though_torch_calls_it_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with pytest.raises(DeviceError, match=r"device 'cuda': torch .* is built for ROCm.*Use --device cpu"):
        find_device("cuda")
    assert find_device("cpu") == CPU


def test_a_gpus_sums_in_bf16_are_kept_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself torch lets cuBLAS add parts of a long sum up in bf16."""
    settings = SimpleNamespace(allow_bf16_reduced_precision_reduction=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", settings)
    before = torch.get_float32_matmul_precision()
    try:
        set_precision(CPU, "fp32")
        assert settings.allow_bf16_reduced_precision_reduction is True
        set_precision(torch.device("cuda", 0), "bf16")
        assert settings.allow_bf16_reduced_precision_reduction is False
    finally:
        torch.set_float32_matmul_precision(before)
