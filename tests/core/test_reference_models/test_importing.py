"""Torch is imported without looking for garbage, once; the collector then goes on as it was."""

import gc
import subprocess
import sys

import pytest
from waiting import HANG_S

from reference_models.process.importing import import_with_torch

IMPORTS = """
import gc, sys
from importlib import import_module
from reference_models.process.importing import import_with_torch
{before}
looks = sum(generation["collections"] for generation in gc.get_stats())
module = {by}({name!r})
looks = sum(generation["collections"] for generation in gc.get_stats()) - looks
print(module.__name__, "torch" in sys.modules, gc.isenabled(), gc.get_freeze_count() > 100_000, looks)
"""


def imported(name: str, before: str = "", by: str = "import_with_torch") -> list[str]:
    """Module, whether torch is there, the collector on, torch's objects set aside; and how often it has looked."""
    code = IMPORTS.format(name=name, before=before, by=by)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_the_first_import_of_torch_looks_for_no_garbage() -> None:
    module, *found, looks = imported("reference_models.dlrm.reference")
    assert (module, found) == ("reference_models.dlrm.reference", ["True", "True", "True"])
    plain = imported("reference_models.dlrm.reference", by="import_module")
    assert plain[1:4] == ["True", "True", "False"]
    assert 4 * int(looks) < int(plain[4])


def test_a_later_import_leaves_the_collector_alone() -> None:
    num_frozen, looked_at = gc.get_freeze_count(), [object()]
    assert import_with_torch("reference_models.dlrm.optimized").__name__ == "reference_models.dlrm.optimized"
    assert gc.get_freeze_count() <= num_frozen, "what was frozen may end, and nothing is added"
    assert any(found is looked_at for found in gc.get_objects()), "which has nothing that is frozen"
    assert gc.isenabled()


@pytest.mark.slow
def test_a_collector_that_is_off_stays_off() -> None:
    _, *found, _ = imported("reference_models.dlrm.reference", before="gc.disable()")
    assert found == ["True", "False", "False"]
