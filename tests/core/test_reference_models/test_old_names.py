"""Own code that overrides what has another name now is refused: nothing would call it."""

import pytest

from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.process.errors import ConfigError


@pytest.mark.parametrize(
    ("old", "new"), [("_build_model", "build_model"), ("_train_step", "train_step"), ("_model_class", "model_class")]
)
def test_an_old_name_is_refused_with_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=rf"Mine\.{old} is called {new} now"):
        type("Mine", (ReferenceWorkload,), {old: lambda self: None})
