"""Import of modules that import torch, which in a small run takes longer than anything but the training itself."""

import gc
import sys
from importlib import import_module
from types import ModuleType


def import_with_torch(name: str) -> ModuleType:
    """Import a module; if that imports torch for the first time, pause Python's garbage collection meanwhile, and
    exempt torch's objects from later collections.

    Torch makes 270 thousand lasting objects, which the collector would traverse 350 times: a ninth of the import.
    Later, in the timed part of a run, a full collection would traverse them again.
    """
    if "torch" in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()
