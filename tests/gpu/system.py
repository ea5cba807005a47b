"""Prints which GPU, driver and torch there are, as one line of JSON; in a process of its own, since it may crash."""

import json
import platform
import sys


def describe() -> dict[str, str]:
    """Return what names the system of a measurement; "problem" says why there is no GPU."""
    import torch

    found = {"torch": str(torch.__version__), "python": platform.python_version(), "system": platform.platform()}
    if not torch.cuda.is_available():
        built = (
            f"torch is built for CUDA {torch.version.cuda}, and sees none"
            if torch.version.cuda
            else "torch is a CPU build"
        )
        return {**found, "problem": built}
    facts = torch.cuda.get_device_properties(0)
    from harness.system.accelerators import read_accelerators

    return {
        **found,
        "gpu": str(facts.name),
        "gpu_gib": f"{facts.total_memory / 2**30:.1f}",
        "capability": f"{facts.major}.{facts.minor}",
        "cuda": str(torch.version.cuda),
        "driver": str(read_accelerators().driver_version or "unknown"),
    }


def describe_code() -> dict[str, str]:
    """The commit, where there is one, and the digest of the product's files."""
    from harness.system.code import code_sha256, describe_commit

    return {"commit": str(describe_commit()["commit"] or "unknown"), "code_sha256": code_sha256()}


if __name__ == "__main__":
    described = describe()
    print(json.dumps({**described, **describe_code()}))
    sys.exit(0)
