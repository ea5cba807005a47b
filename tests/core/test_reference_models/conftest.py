"""What tests of implementations share: a toy dataset of clicks, and specifications that train on it."""

from pathlib import Path

import pytest
from toy_clicks import MakeSpec, spec_maker, write_dataset


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_dataset(folder)
    return folder


@pytest.fixture
def make_spec(data_dir: Path) -> MakeSpec:
    return spec_maker(data_dir)
