"""The collector of cyclic garbage is left as it was found."""

import gc

import pytest

from rules.judge.parallel import no_collections, no_full_collections


def test_thresholds_are_restored_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), no_full_collections():
        young, middle, old = gc.get_threshold()
        assert (young, middle) == before[:2] and old > 1e6
        raise KeyError
    assert gc.get_threshold() == before


def test_collection_goes_on_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError), no_collections():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
