"""Cases that codesign adds to tests of the core."""

from typing import Any

WORDS = {"codesign": ((), "codesign dlrm_tiny --space pe_array --trials 2")}
SHOWN_PAGES = {"codesign": ("dlrm_tiny", "a step takes .* than the baseline")}
MEASURING_NOTHING = {"codesign": "all of it is modelled"}
FILE_WORDS = {"space": "codesign dlrm_tiny --space {}.toml --trials 2"}


def _space() -> dict[str, Any]:
    from places import ROOT

    text = (ROOT / "harness" / "extensions" / "codesign" / "pe_array.toml").read_text()
    return {"files": {"mine.toml": text}, "words": ("codesign dlrm_tiny --space mine.toml --trials 2",)}


FAMILIES = {"space": _space}
COMPLETED = {"codesign --space": ("p", ["pe_array", "pe_array_fine"])}
