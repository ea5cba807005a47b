"""What tests of pages share: a browser, which tests that use it skip where there is none."""

from collections.abc import Iterator

import pytest
from browser import Browser, find_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(find_browser() or "", tmp_path_factory.mktemp("profile")) as running:
        yield running
