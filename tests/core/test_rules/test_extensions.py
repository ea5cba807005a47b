"""The registry of extensions: what several add is joined, and one alone defines a name."""

import pytest

from rules import extensions
from rules.extensions import Extension, Verb, find_places, load_extensions, load_place, merge, with_extensions

ADDED = Verb("json:loads", "Read a document.", "Look")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """One extension that adds a verb."""
    monkeypatch.setattr(extensions, "load_extensions", lambda: {"reading": Extension(verbs={"read": ADDED})})
    monkeypatch.setattr(extensions, "find_places", find_places.__wrapped__)


@pytest.mark.usefixtures("added")
def test_the_core_comes_first_and_a_name_of_the_core_is_refused() -> None:
    shown = Verb("json:dumps", "Show a document.", "Look")
    assert list(with_extensions({"show": shown}, "verbs").items()) == [("show", shown), ("read", ADDED)]
    assert dict(extensions.find_places("verbs")) == {"read": ADDED} and not extensions.find_places("kinds")
    with pytest.raises(
        ValueError, match="'read' is defined by the core and by extension reading: give one of them another"
    ):
        with_extensions({"read": shown}, "verbs")


def test_two_extensions_have_no_name_in_common() -> None:
    assert merge({"extension a": {"x": 1}, "extension b": {"y": 2}}) == {"x": 1, "y": 2}
    with pytest.raises(ValueError, match="'x' is defined by extension a and by extension b"):
        merge({"extension a": {"x": 1}, "extension b": {"x": 1}})


def test_an_extension_whose_need_is_not_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "EXTENSIONS", {"reading": "tests.nowhere"})
    monkeypatch.setattr(extensions, "import_module", lambda name: type("Module", (), {"EXTENSION": NEEDY}))
    with pytest.raises(ValueError, match="extension reading needs writing, which is not in EXTENSIONS"):
        load_extensions.__wrapped__()


NEEDY = Extension(needs=("writing",))


def test_a_place_names_what_is_in_a_module() -> None:
    assert load_place("rules.extensions:Verb") is Verb
