"""Profiles on the page: every phase is drawn, and whatever a file holds, nothing breaks."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_builder import Page, write_report, write_run_set

from reports.charts.bars import Bar, phases_figure
from reports.charts.figure import Figure
from reports.charts.roofline import RooflineDot, roofline_figure
from reports.document.blocks import Chart
from reports.document.page import PageSection
from reports.facts.profile import read_profiles
from reports.page.studies.profile import profile_section
from reports.parts.profile import ceilings_table, headline, limits_table, phases_table
from rules.errors import InputError
from rules.records.codec import DamageError, convert
from rules.records.profile import ProfileRecord
from rules.tree.inventory import take_inventory

HOSTILE = "</title><script>alert(1)</script>\x1b[31m\u202e"
ABOUT = {"id_": "c", "title": "Title " + HOSTILE[:20], "description": "Description"}
PHASES = ("data", "embedding_forward", "top_mlp_forward", "sparse_optimizer", "other")


def phase(name: str, time_s: float | None, **computed: Any) -> dict[str, Any]:
    labels = {"top_mlp_forward": "top MLP fwd"}
    nothing = dict.fromkeys(("share", "flop_per_byte", "flop_per_s", "bytes_per_s", "rows_per_s", "ceiling_fraction"))
    limits = dict.fromkeys(("compute_limit_s", "memory_limit_s", "gather_limit_s"), 0.0)
    counts = dict.fromkeys(("matmul_flop", "elementwise_flop", "bytes", "rows"), 0)
    known = {**nothing, **limits, **counts, "bound": None, **computed}
    return {"phase": name, "label": labels.get(name), "measured": {"time_s": time_s}, "computed": known}


def document(**more: Any) -> dict[str, Any]:
    """A profile as the harness writes it, short."""
    rate = {"best": 2e9, "median": 1e9}
    product = {"num": 1, "m": 2, "k": 3, "n": 4, "layout": "any", "flop_per_s": rate}
    gather = {"ids": "uniform", "method": "index", "table_rows": 100, "row_bytes": 64, "rows_per_s": rate}
    limit = {"step_s": 0.001, "samples_per_s": 512_000.0, "fraction": 0.25}
    return {
        "schema_version": 1, "benchmark": "dlrm_tiny", "definition_sha256": "", "implementation": "reference",
        "device": "cpu", "precision": "fp32", "num_threads": 2, "global_batch_size": 512,
        "unique_rows_per_step": 7, "hyperparameters": {},
        "step": {
            "measured": {
                "num_blocks": 10, "steps_per_block": 5, "step_s": 0.004, "fastest_step_s": 0.003,
                "told_step_s": None, "fastest_told_step_s": None, "samples_per_s": 128_000.0,
                "named_share": 0.99, "instrumentation_cost": -0.001, "instrumentation_cost_interval": [-0.01, 0.02],
            },
            "computed": {
                "matmul_flop": 1.0, "bytes": 1.0, "flop_per_s": 1.0, "ridge_side": "memory",
                "flop_per_byte": 4.0, "bound_shares": {"overhead": 0.75, "compute": 0.25},
                "limits": dict.fromkeys(("matmul", "matmul_median", "matmul_best_shape", "all_phases"), limit),
            },
        },
        "phases": [
            phase(
                name, 0.001 * (1 + index), share=0.2, matmul_flop=1000, elementwise_flop=0, bytes=100,
                flop_per_byte=10.0 if name != "other" else None, flop_per_s=1e6 * 10**index,
                ceiling_fraction=0.6, bound="compute" if name == "top_mlp_forward" else "overhead",
            )
            for index, name in enumerate(PHASES)
        ],
        "evaluation": {
            "measured": {"duration_s": 0.1, "num_samples": 10_000, "samples_per_s": 1e5},
            "computed": {"matmul_flop": 1, "flop_per_s": 1e9},
        },
        "ceilings": {
            "measured": {
                "matmul": [product | {"used_by": ["x"]}],
                "square": [product],
                "copies": [{"bytes": 1024, "bytes_per_s": {"best": 4e9, "median": 3e9}}],
                "random_rows": gather, "batch_rows": gather, "transfer": None,
            },
            "computed": {
                "best_matmul_flop_per_s": 1e11, "memory_bytes_per_s": 1e10, "ridge_flop_per_byte": 10.0,
                "random_rows_bytes_per_s": 1e9, "batch_rows_bytes_per_s": 1e9,
            },
        },
        "operators": {
            "measured": {
                "num_steps": 5, "step_s": 0.004, "outside_share": 0.1,
                "table": [
                    {
                        "name": "aten::mm", "shapes": [[2, 3], [3, 4]], "calls_per_step": 2.0,
                        "self_s_per_step": 0.002, "share": 0.5, "flop": 48, "bytes": 104,
                    }
                ],
            }
        },
    } | more  # fmt: skip


def facts_of(content: dict[str, Any]) -> ProfileRecord:
    return convert(json.loads(json.dumps(content)), ProfileRecord)


def write_profile(folder: Path, content: object) -> Path:
    (folder / "extra").mkdir(parents=True, exist_ok=True)
    (folder / "extra" / "profile.json").write_text(json.dumps(content))
    return folder


def marks(figure: Figure, name: str) -> int:
    root = ElementTree.fromstring(figure.wide)
    return sum(name in element.get("class", "").split() for element in root.iter())


def charts_of(section: PageSection) -> list[Chart]:
    return [block for block in section.blocks if isinstance(block, Chart)]


def test_every_phase_is_a_row_and_a_bar_and_every_phase_with_work_is_a_dot() -> None:
    record = facts_of(document())
    view = profile_section(record, "p")
    bars, roofline = charts_of(view)
    assert [row[0].text for row in phases_table(record).rows] == [
        "data",
        "embedding fwd",
        "top MLP fwd",
        "sparse optimizer",
        "other",
    ]
    for name in ("embedding fwd", "sparse optimizer"):
        assert name in bars.figure.wide
    assert (marks(roofline.figure, "dot-counted"), marks(roofline.figure, "dot-dropped")) == (4, 1)
    assert "memory" in roofline.lead  # 4 FLOP per byte lie below the ridge of 10
    assert "25 % of the time is bound by compute" in bars.lead


def test_the_headline_holds_the_step_against_its_limit() -> None:
    words = headline(facts_of(document()))
    assert "A step of 512 samples takes 4.0 ms: 128 k samples/s." in words
    assert "512 k samples/s; the step reaches 25 % of that" in words
    assert "75 %, is in phases bound by overhead" in words


def test_what_was_not_measured_is_not_zero() -> None:
    content = document(phases=[phase("data", None), phase("loss", 1.0, share=1.0)])
    rows = phases_table(facts_of(content)).rows
    assert [cell.text for cell in rows[0][1:]] == ["—"] * 7
    ceilings = ceilings_table(facts_of(content))
    assert [[cell.text for cell in row[2:4]] for row in ceilings.rows if "host" in row[0].text] == [["—", "—"]] * 2


def test_a_page_may_be_a_profile_alone_or_beside_runs(tmp_path: Path) -> None:
    alone = write_profile(tmp_path / "alone", document())
    page = Page(write_report([alone], tmp_path / "alone.html").read_text(encoding="utf-8"))
    assert "Profile: dlrm_tiny, reference" in page.text
    assert "dlrmbench · a profile" in page.text and "a study" not in page.text
    beside = write_profile(write_run_set(tmp_path / "beside"), document())
    page = Page(write_report([beside], tmp_path / "beside.html").read_text(encoding="utf-8"))
    assert "Profile: dlrm_tiny, reference" in page.text
    assert "Every run" in page.text and "dlrmbench · training to a quality target" in page.text
    assert page.unclosed == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_folder_of_neither_runs_nor_profiles_is_refused(tmp_path: Path) -> None:
    write_profile(tmp_path / "set", {"phases": []})
    assert read_profiles([tmp_path / "set"]) == ()
    with pytest.raises(InputError):
        write_report([tmp_path], tmp_path / "page.html")


def test_a_hostile_file_cannot_write_markup(tmp_path: Path) -> None:
    content = json.loads(json.dumps(document()).replace("dlrm_tiny", "NAME").replace("aten::mm", "NAME"))
    content["benchmark"] = content["phases"][0]["phase"] = content["operators"]["measured"]["table"][0]["name"] = (
        HOSTILE
    )
    write_profile(tmp_path, content)
    text = write_report([tmp_path], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "\x1b" not in text and "\u202e" not in text


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, entry in inner for place in places(entry, (*at, key)))]


PLACES = places(document())[1:]


@given(st.sampled_from(PLACES), junk)
def test_whatever_is_in_the_file_it_reads_and_draws(place: tuple[Any, ...], value: Any) -> None:
    content = document()
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        record = facts_of(content)
    except DamageError:
        return
    view = profile_section(record, "p")
    assert len(limits_table(record).rows) >= 1
    for chart in charts_of(view):
        for drawing in (chart.figure.wide, chart.figure.narrow):
            for element in ElementTree.fromstring(drawing).iter():
                assert not any("nan" in text or "inf" in text for text in element.attrib.values())


finite = st.floats(1e-12, 1e18)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=20), finite, finite, st.none() | finite)
def test_a_roofline_stays_inside_its_drawing(
    dots: list[tuple[float, float]], flop_per_s: float, memory: float, cache: float | None
) -> None:
    figure = roofline_figure(
        [RooflineDot(label="dot", flop_per_byte=x, flop_per_s=y, kind="phase", hint="") for x, y in dots],
        peak=flop_per_s,
        memory=memory,
        cache=cache,
        **ABOUT,
    )
    root = ElementTree.fromstring(figure.wide)
    for circle in root.iter("circle"):
        assert -1 <= float(circle.get("cx", "nan")) <= 961
        assert -1 <= float(circle.get("cy", "nan")) <= 381


def bar(share: float, at_ceiling: float) -> Bar:
    return Bar("x" * 50, (min(share, at_ceiling), max(share - at_ceiling, 0.0)), "words " * 20)


@pytest.mark.parametrize(
    "make",
    [
        lambda: phases_figure([bar(0.5, 0.2), bar(0.5, 0.9)], **ABOUT),
        lambda: phases_figure([bar(0.0, 0.0)], **ABOUT),
        lambda: phases_figure([bar(1e-9, 0.0), bar(1.0, 1.0)], **ABOUT),
    ],
)
def test_bars_have_no_negative_extent(make: Callable[[], Figure]) -> None:
    for drawing in (make().wide, make().narrow):
        for element in ElementTree.fromstring(drawing).iter():
            for name in ("width", "height", "x", "y"):
                assert math.isfinite(float(element.get(name, "0")))
            widths = re.findall(r"M[^h]*h(-?[\d.]+)v", element.get("d", ""))
            assert all(float(width) >= 0 for width in widths)


def test_logs_and_profiles_are_both_found_below_a_folder_of_sets(tmp_path: Path) -> None:
    write_run_set(tmp_path / "one")
    write_profile(tmp_path / "two", document())
    assert take_inventory(tmp_path).measurements["profile"] == (tmp_path / "two",)
    page = Page(write_report([tmp_path], tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Profile: dlrm_tiny" in page.text and "Every run" in page.text
