"""Colours of the page: read from the style sheet, legible on every background they stand on."""

import re

import pytest
from places import ROOT

STYLE = (ROOT / "reports" / "render" / "templates" / "style.css").read_text(encoding="utf-8")
PALETTE = {
    name: schemes for name, *schemes in re.findall(r"--(\w+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", STYLE)
}
TEXT = ("ink", "muted", "blue", "vermillion", "green", "purple", "amber")
SCHEMES = {"light": 0, "dark": 1}


def luminance(colour: str) -> float:
    """WCAG 2.2 relative luminance of #rrggbb."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_wcags() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", TEXT)
def test_text_and_marks_stand_out(name: str, scheme: str) -> None:
    index = SCHEMES[scheme]
    assert contrast(PALETTE[name][index], PALETTE["paper"][index]) >= 5.2
    assert contrast(PALETTE[name][index], PALETTE["panel"][index]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_of_a_bar_are_seen_on_the_page(scheme: str) -> None:
    index = SCHEMES[scheme]
    assert all(contrast(PALETTE[name][index], PALETTE["paper"][index]) >= 3 for name in ("blue", "amber", "grey"))


def test_every_colour_comes_from_the_palette() -> None:
    used = set(re.findall(r"var\(--(\w+)", STYLE)) - {"c", "dash", "fade", "fail", "serif", "shade", "sans", "mono"}
    assert used <= set(PALETTE)
    rest = re.sub(r"--\w+: light-dark\([^)]*\);", "", STYLE)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", rest) == []
