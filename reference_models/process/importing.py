"""Import of modules that import torch, which in a small run takes longer than anything but the training itself."""

import gc
import sys
from importlib import import_module
from types import ModuleType


def import_with_torch(name: str) -> ModuleType:
    """Import a module that may import torch. If torch was not imported before, pause Python's garbage collection
    during the import, and exempt all objects made so far from later collections.

    Torch makes 270 thousand lasting objects. During the import the collector would traverse them 350 times, which
    takes a ninth of the import's time. Later, a full collection in the timed part of a run would traverse them again.
    """
    if "torch" in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()
