"""Import a module that brings torch: the longest part of a small run that is not its training."""

import gc
import sys
from importlib import import_module
from types import ModuleType


def import_with_torch(name: str) -> ModuleType:
    """Import a module; where it is the first to bring torch, look for no garbage meanwhile, and never among torch's.

    Torch makes 270 thousand objects that stay, and the collector goes through them 350 times: a ninth of the import.
    Later, in the timed part, a full collection would go through them again.
    """
    if "torch" in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()
