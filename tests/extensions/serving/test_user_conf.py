"""A user.conf of LoadGen as keys of [serve], against LoadGen's own reading of it; MLPerf's form; sample libraries."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.run_config import Override, RunConfig, resolve
from harness.extensions.serving.config import (
    LIBRARY_BYTES,
    ServeConfig,
    explain_needs,
    library_sizes,
    list_sizes,
    parse_serve,
    read_serve,
    whole_split,
)
from harness.extensions.serving.job import KIND, resolve_served
from harness.extensions.serving.loadgen import MODULE
from harness.extensions.serving.rounds import FORMS, ROUNDS
from harness.extensions.serving.user_conf import MAX_BYTES
from reference_models.process.errors import ConfigError

needs_loadgen = pytest.mark.skipif(find_spec(MODULE) is None, reason="MLPerf LoadGen is not installed")
READ = """
import json, sys
import mlperf_loadgen as loadgen
settings = loadgen.TestSettings()
path, scenario, model = sys.argv[1:]
assert settings.FromConfig(path, model, scenario, 1 if path else 0) == 0
print(json.dumps({name: getattr(settings, name) for name in dir(settings) if not name.startswith("_")}, default=str))
"""
"""Print LoadGen's settings after its mlperf.conf and a user.conf: in a process of its own, where it keeps count."""


def read_with_loadgen(path: Path | str, scenario: str, model: str = "dlrm-v2") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), scenario, model], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def resolve_with(path: Path, content: str | bytes, **more: Any) -> RunConfig:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    given = {"user_conf": str(path), **more}
    overrides = [Override(key=f"serve.{key}", value=value, source=f"option {key}") for key, value in given.items()]
    return resolve("dlrm_tiny", overrides, sections=("serve",))


CONF = """# rates
*.Server.target_qps = 100
dlrm-v2.Server.target_qps = 250.5
#nothing
dlrm-v2.*.min_duration = 2000
*.*.min_duration = 9000
*.Server.min_duration = 3000
*.Server.target_latency = 0x32
*.Server.target_latency_percentile = 97
*.*.min_query_count = 500
*.*.performance_sample_count_override = 96
resnet50.Server.min_query_count = 7
*.Offline.target_qps = 1e3
*.SingleStream.target_latency = 4
"""


@needs_loadgen
def test_what_is_read_is_what_loadgen_reads(tmp_path: Path) -> None:
    path = tmp_path / "user.conf"
    content = CONF.replace("0x32", "50")
    serve = read_serve(resolve_with(path, content).tables)
    said = read_with_loadgen(path, "Server")
    assert serve.target_qps == said["server_target_qps"] == 250.5
    assert serve.target_latency_ms is not None
    assert serve.target_latency_ms * 1e6 == said["server_target_latency_ns"] == 50e6
    assert serve.share == pytest.approx(said["server_target_latency_percentile"])
    assert serve.min_duration_s is not None and serve.min_duration_s * 1e3 == said["min_duration_ms"] == 3000
    assert serve.min_queries == said["min_query_count"] == 500
    assert serve.library == said["performance_sample_count_override"] == 96
    said = read_with_loadgen(path, "Offline")
    serve = read_serve(resolve_with(path, content, scenario="offline").tables)
    assert (serve.target_qps, serve.min_duration_s) == (said["offline_expected_qps"], said["min_duration_ms"] / 1e3)
    assert serve.min_duration_s == 2
    serve = read_serve(resolve_with(path, content, scenario="single_stream").tables)
    said = read_with_loadgen(path, "SingleStream")
    assert serve.target_qps == pytest.approx(1e9 / said["single_stream_expected_latency_ns"])


def test_every_value_says_its_file_and_line_and_the_digest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "user.conf"
    config = resolve_with(path, "\n*.Server.target_qps = 40\n")
    values = config.values()
    assert values["serve.target_qps"] == {"value": 40.0, "source": f"file {path}:2: *.Server.target_qps"}
    assert len(values["serve.user_conf"]["value"]) == 64 and values["serve.user_conf"]["source"] == f"file {path}"
    assert config.tables["serve"]["user_conf"] == read_serve(config.tables).user_conf


@pytest.mark.parametrize(
    ("content", "said"),
    (
        ("*.Server.target_qps=40", r"user.conf:1: .*expected 'model.scenario.key = value'"),
        ("\n*.Server.target_qps = 40 # mine", r"user.conf:2: .*nothing after the value"),
        ("*.Server.target_qps =", r"user.conf:1: "),
        ("Server.target_qps = 4", r"user.conf:1: "),
        ("*..target_qps = 4", r"user.conf:1: "),
        ("*.server.target_qps = 4", r"user.conf:1: scenario 'server'.*Server"),
        ("*.Server.target_qps = many", r"user.conf:1: \*.Server.target_qps is 'many', expected a number"),
        ("*.Server.target_qps = -4", r"user.conf:1: \*.Server.target_qps is '-4'"),
        ("*.Server.target_qps = nan", r"user.conf:1: \*.Server.target_qps is 'nan'"),
        ("*.Server.target_qps = 0", r"user.conf:1: \*.Server.target_qps: .*serve.target_qps"),
        ("*.Server.min_duration = 0", r"user.conf:1: \*.Server.min_duration: .*serve.min_duration_s"),
        ("*.Server.min_duration = 1.5", r"user.conf:1: \*.Server.min_duration is '1.5', expected a whole number"),
        ("*.Server.target_latency_percentile = 98", r"user.conf:1: .*expected one that LoadGen reports"),
        ("*.Server.target_qps = 4\n*.Server.target_qps = 5", r"user.conf:2: .* is in line 1, too"),
        ("*.*.qsl_rng_seed = 4", r"user.conf:1: \*.\*.qsl_rng_seed' cannot be honoured: LoadGen takes its seeds"),
        ("*.Server.max_duration = 4", r"user.conf:1: .*cannot be honoured: no run is cut short"),
        ("*.Server.mode = 1", r"user.conf:1: .*cannot be honoured: give --mode"),
        ("*.Server.coalesce_queries = 1", r"user.conf:1: .*cannot be honoured: for Server, dlrmbench honours"),
        ("*.*.target_\x1b[2Jqps = 1", r"user.conf:1: .*\\x1b.*cannot be honoured"),
        ("*.Offline.target_qps = 1", r"user.conf: no line is for dlrm-v2.Server"),
        ("", r"user.conf: no line is for dlrm-v2.Server"),
        (b"\xff\xfe = \x00", r"user.conf:1: "),
        (b"#" * (MAX_BYTES + 1), r"user.conf: 65,537 bytes, expected"),
    ),
)
def test_what_is_broken_or_cannot_be_is_refused_by_its_place(content: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        resolve_with(tmp_path / "user.conf", content)
    assert str(refused.value).isprintable()


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=200))
def test_whatever_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    try:
        resolve_with(tmp_path_factory.mktemp("conf") / "user.conf", content)
    except ConfigError as error:
        assert "user.conf" in str(error)


def test_what_is_given_twice_is_refused_unless_it_is_the_same(tmp_path: Path) -> None:
    content = "*.Server.target_latency = 50\n"
    with pytest.raises(
        ConfigError, match=r"user.conf:1: .*asks for serve.target_latency_ms = 50, option target_latency_ms"
    ):
        resolve_with(tmp_path / "user.conf", content, target_latency_ms=60.0)
    served = read_serve(resolve_with(tmp_path / "user.conf", content, target_latency_ms=50.0).tables)
    assert served.target_latency_ms == 50
    with pytest.raises(ConfigError, match="no such file"):
        resolve("dlrm_tiny", [Override(key="serve.user_conf", value="none.conf", source="here")], sections=("serve",))


def of_mlperf(benchmark: str = "dlrm_tiny", **more: Any) -> RunConfig:
    given = {"mlperf": True, **more}
    overrides = [Override(key=f"serve.{key}", value=value, source=f"option {key}") for key, value in given.items()]
    return resolve(benchmark, overrides, sections=("serve",))


def test_mlperf_gives_what_nobody_gave_over_what_the_definition_says() -> None:
    config = of_mlperf(target_latency_ms=40.0)
    serve = read_serve(config.tables)
    assert serve.target_latency_ms == 40 and serve.percentile == 99 and serve.min_duration_s == 600
    assert config.values()["serve.library"] == {"value": 204_800, "source": "option mlperf"}
    assert read_serve(of_mlperf(scenario="offline").tables).min_queries == 24_576


@pytest.mark.parametrize(
    ("more", "said"),
    (
        ({"percentile": 95.0}, r"serve.percentile is 95.0, but --mlperf asks for 99.0\."),
        ({"target_latency_ms": 61.0}, "serve.target_latency_ms is 61.0, .* 60.0 at most"),
        ({"library": 64}, "serve.library is 64, .* 204800 at least"),
        ({"min_duration_s": 1.0}, "serve.min_duration_s is 1.0, .* 600.0 at least"),
        ({"queries": "fixed:8"}, "serve.queries is fixed:8, .* mlperf"),
        ({"colocate": 2}, "serve.colocate is 2"),
        ({"scenario": "single_stream"}, "scenarios for recommenders are server and offline"),
    ),
)
def test_what_is_less_than_mlperf_asks_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        of_mlperf(**more)


def test_a_user_conf_that_asks_for_less_than_mlperf_is_refused_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"user.conf:1: \*.\*.min_duration: serve.min_duration_s is 1.0, but --mlperf"
    ):
        resolve_with(tmp_path / "user.conf", "*.*.min_duration = 1000", mlperf=True)


@needs_loadgen
@pytest.mark.parametrize(("model", "library"), (("dlrm-v2", True), ("dlrm-v3", False)))
def test_the_form_is_what_loadgen_itself_asks(model: str, library: bool) -> None:
    """LoadGen's mlperf.conf has these numbers in every round, but of dlrm-v3 neither library nor count; sizes of
    queries are the reference's."""
    said, form = read_with_loadgen("", "Server", model), FORMS[model]["server"]
    assert form["percentile"] == pytest.approx(said["server_target_latency_percentile"] * 100)
    assert form["target_latency_ms"] == said["server_target_latency_ns"] / 1e6
    assert form["min_duration_s"] == said["min_duration_ms"] / 1e3
    assert (form["library"] == said["performance_sample_count_override"]) is library
    said, form = read_with_loadgen("", "Offline", model), FORMS[model]["offline"]
    assert form["min_duration_s"] == said["min_duration_ms"] / 1e3
    assert (form["min_queries"] == said["min_query_count"]) is library


@needs_loadgen
def test_the_seeds_of_some_round_are_those_that_the_installed_loadgen_publishes() -> None:
    said = read_with_loadgen("", "Server")
    published = tuple(int(said[name]) for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"))
    assert published in [(asked.library, asked.samples, asked.schedule) for asked in ROUNDS.values()]


def test_a_round_has_its_own_model_and_the_last_one_is_the_models_default() -> None:
    assert read_serve(of_mlperf().tables).mlperf_round == "5.1"
    assert read_serve(of_mlperf(round="5.0").tables).mlperf_round == "5.0"
    serve = read_serve(of_mlperf("dlrmv4_small").tables)
    assert (serve.mlperf_round, serve.target_latency_ms, serve.library) == ("6.1", 80.0, 349_823)
    assert list_sizes(serve.queries) == (2048,)
    for benchmark, name, other in (("dlrm_tiny", "6.0", "5.1"), ("dlrmv4_small", "5.1", "6.1")):
        config = of_mlperf(benchmark, round=name)
        given = [
            Override(key=f"serve.{key}", value=value, source=f"option {key}")
            for key, value in (("mlperf", True), ("round", name))
        ]
        assert config.tables["serve"]["round"] == name
        with pytest.raises(ConfigError, match=rf"--mlperf of round {name} .* Give --round {other}"):
            resolve_served(benchmark, given, None)


def test_a_round_without_the_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"serve.round is '6.1', which needs --mlperf"):
        parse_serve({"target_latency_ms": 25, "round": "6.1"})


@pytest.mark.parametrize(
    ("asked", "said"),
    (
        (
            {},
            "v5.1 asks dlrm-v2 from a library of 204,800 queries, 55,296,000 samples .* 459 queries; at least 4 runs",
        ),
        ({"scenario": "offline"}, "at least 600 s and has at least 24,576 queries; one run a process: 600 s"),
    ),
)
def test_the_form_says_before_it_starts_what_it_needs(asked: dict[str, Any], said: str) -> None:
    serve = read_serve(of_mlperf(**asked).tables)
    assert re.search(said, explain_needs(serve))
    assert explain_needs(serve) in KIND.remarks(of_mlperf(**asked))
    given = [
        Override(key=f"serve.{key}", value=value, source=f"option {key}")
        for key, value in {"mlperf": True, **asked}.items()
    ]
    with pytest.raises(ConfigError, match=f"queries. Serve a .*{said}"):
        resolve_served("dlrm_tiny", given, None)


def test_a_library_is_the_split_in_whole_rounds_within_its_bound() -> None:
    serve = ServeConfig(queries="mlperf")
    assert library_sizes(serve, 54_321, 100) == list_sizes("mlperf") * 10
    assert library_sizes(serve, 100, 100) == list_sizes("mlperf") * 4  # 80 queries: at least 64
    bounded = library_sizes(serve, 10**12, 1000)
    assert LIBRARY_BYTES - 5400 * 1000 < sum(bounded) * 1000 <= LIBRARY_BYTES
    assert len(library_sizes(ServeConfig(queries="fixed:8"), 8192, 100)) == 1024


def test_a_library_that_the_split_does_not_hold_is_refused_with_both_numbers() -> None:
    serve = parse_serve({"scenario": "offline", "mlperf": True, **FORMS["dlrm-v2"]["offline"]})
    with pytest.raises(ConfigError, match=r"204,800 queries, which take 55,296,000 samples.* 12,288: 45 queries"):
        library_sizes(serve, 12_288, 264)
    assert len(library_sizes(serve, 89_137_319, 1768)) == 204_800
    assert library_sizes(ServeConfig(library=3, queries="fixed:4"), 12, 1) == (4, 4, 4)


@settings(deadline=None)
@given(st.sampled_from(("deeprecsys", "mlperf", "fixed:7")), st.integers(1, 60_000))
def test_queries_of_the_whole_split_have_every_sample_once(queries: str, num_samples: int) -> None:
    sizes = whole_split(queries, num_samples)
    assert sum(sizes) == num_samples and min(sizes) > 0
    assert sizes[:-1] == (list_sizes(queries) * len(sizes))[: len(sizes) - 1]
