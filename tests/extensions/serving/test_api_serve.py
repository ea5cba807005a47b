"""`harness.api.serve`, and what its verb asks of a request, with workers that answer at once."""

import inspect
import json
import shlex
from pathlib import Path

import pytest
from sweep_builder import FastWorkers, use_fast_workers_of_dlrm_tiny

from harness import api
from harness.experiment.expand import expand
from harness.experiment.request import OPTIONS, Request, RequestError, flags_of
from harness.extensions.serving import loadgen
from harness.extensions.serving.options import FLAGS, REQUEST_FLAGS
from harness.extensions.serving.records import ServeRecord
from harness.extensions.serving.serve import serve
from harness.foundation.errors import HarnessError
from rules.records.codec import decode


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FastWorkers:
    made = FastWorkers()
    use_fast_workers_of_dlrm_tiny(monkeypatch, made, tmp_path / "data")
    return made


def record_of(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "extra" / "run_set.json").read_text())
    return content


def test_what_is_served_is_asked_by_settings(
    workers: FastWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "results"
    monkeypatch.setattr(loadgen, "find_spec", lambda name: object())
    settings = {"serve.percentile": 99, "serve.batch": 256, "runtime.threads": 1}
    folder = api.serve("dlrm_tiny", processes=2, seed=3, settings=settings, output=output)
    assert [spec["tables"]["serve"]["batch"] for spec in workers.launches] == [256, 256]
    record = decode(folder / "extra" / "serve.json", ServeRecord)
    assert isinstance(record, ServeRecord) and len(record.processes) == 2 and record.percentile == 99
    assert (output / "latest").resolve() == folder.resolve()
    words = shlex.split(str(record_of(folder)["command"]))
    assert words[:4] == ["dlrmbench", "serve", "dlrm_tiny", "--processes"] and "serve.batch=256" in words
    assert api.resume(folder, runs=5) == folder and len(api.results(folder).measurements) == 5
    with pytest.raises(HarnessError, match="no such run set"):
        api.serve("dlrm_tiny", weights=tmp_path / "none", output=output)
    monkeypatch.setattr(loadgen, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="pip install"):
        api.serve("dlrm_tiny", output=output)


def test_options_and_arguments_have_the_names_of_the_request() -> None:
    options = {parameter.name: parameter.opts for parameter in serve.params}
    asked = {name: tuple(options[name]) for name in OPTIONS if name in options}
    assert asked == {name: FLAGS.get(name, flags_of("run", name)) for name in asked}
    assert {"runs", "output", "seed", "weights"} <= asked.keys() and asked["runs"][-1] == REQUEST_FLAGS["runs"]
    arguments = set(inspect.signature(api.serve).parameters)
    assert arguments <= {*Request.__dataclass_fields__, "processes"}
    assert asked.keys() - {"strict_env", "runs"} <= arguments


def test_serving_is_asked_no_number() -> None:
    request = Request(verb="sweep", axes=["runtime.threads=1"], kinds={"serve": 5})
    with pytest.raises(RequestError, match="serve is 5, expected no number"):
        expand(request)


def test_what_no_extension_adds_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'levitate'"):
        api.levitate  # noqa: B018
