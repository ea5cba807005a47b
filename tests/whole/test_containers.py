"""The images' recipes: their commands are README's, they copy all of the product, and CI builds and runs one."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT
from waiting import HANG_S

README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDER = ROOT / ".ci" / "container"
IMAGES = ("cpu", "cuda")
JOB = ROOT / ".github" / "workflows" / "container.yml"


def instructions(image: str) -> list[tuple[str, str]]:
    """Each instruction of an image's recipe with its words, comments left out."""
    lines = (FOLDER / f"{image}.Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return [(words[0], words[2]) for line in lines if line and line[0] != "#" for words in [line.partition(" ")]]


def of(image: str, name: str) -> list[str]:
    return [words for instruction, words in instructions(image) if instruction == name]


def readme_commands() -> list[str]:
    """What README tells to run to install and to run a container, in its order."""
    part = README.partition("\n## Install and run\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```|`(pip [^`]+)`", part, flags=re.DOTALL)
    return [line.strip() for block, inline in blocks for line in (block or inline).splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("image", "installs"),
    [
        (
            "cpu",
            [
                "pip install 'torch<2.14' --index-url https://download.pytorch.org/whl/cpu",
                "pip install '.[serve,tune]'",
                "pip install --no-deps -r reference_models/dlrm/requirements/torchrec-cpu.txt",
            ],
        ),
        ("cuda", ["pip install '.[gpu,serve,tune]'"]),
    ],
)
def test_an_image_is_made_by_the_commands_of_the_readme(image: str, installs: list[str]) -> None:
    assert [command for command in of(image, "RUN") if "pip" in command] == installs
    assert set(installs) <= set(readme_commands())


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_holds_all_that_the_product_is_made_of_and_nothing_else(image: str) -> None:
    (product,) = re.findall(r"^PRODUCT := (.*) \$\(shell find (.*) -type f", (ROOT / "Makefile").read_text(), re.M)
    copied = [words.split() for words in of(image, "COPY")]
    assert sorted(name for *sources, _ in copied for name in sources) == sorted(" ".join(product).split())
    assert all(target == "./" or [target] == sources for *sources, target in copied)
    order = [
        name for name, words in instructions(image) if name == "COPY" or "pip install ." in words or "'.[" in words
    ]
    assert order[-1] == "RUN" and order.count("RUN") == 1, "the product is copied before it is installed"


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_dlrmbench_as_nobody_special(image: str) -> None:
    assert of(image, "FROM") == ["python:3.12-slim"]
    assert of(image, "ENTRYPOINT") == ['["dlrmbench"]']
    (user,) = of(image, "USER")
    assert user == "dlrmbench" and any(f"useradd --uid 1000 {user}" in words for words in of(image, "RUN"))
    last = [name for name, _ in instructions(image)]
    assert "RUN" not in last[last.index("USER") :] and of(image, "WORKDIR")[-1] == "/work"


def test_the_image_for_gpus_says_first_that_none_has_run_it() -> None:
    text = (FOLDER / "cuda.Dockerfile").read_text(encoding="utf-8")
    assert text.startswith("# No GPU has run this image.")


def test_ci_builds_and_runs_the_image_by_the_commands_of_the_readme() -> None:
    job: Any = yaml.safe_load(JOB.read_text(encoding="utf-8"))
    assert job["permissions"] == {"contents": "read"}
    (steps,) = (each["steps"] for each in job["jobs"].values())
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == [command for command in readme_commands() if command.startswith("docker ")]
    build, run = commands
    assert " -f .ci/container/cpu.Dockerfile -t dlrmbench ." in build
    assert run.endswith(" dlrmbench run dlrm_tiny -n 1") and not any("${{" in command for command in commands)


def has_docker() -> bool:
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=HANG_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.mark.long
def test_the_image_trains_where_docker_is(tmp_path: Path) -> None:
    if not has_docker():
        pytest.skip("no Docker daemon answers here")
    build, run = (command for command in readme_commands() if command.startswith("docker "))
    subprocess.run(build, shell=True, cwd=ROOT, check=True)
    subprocess.run(run, shell=True, cwd=tmp_path, check=True)
    assert list(tmp_path.glob("results/dlrm_tiny-*/report.html"))
