"""The pages' commands exist, with the options they show; what they list is what there is."""

import json
import re
import shlex
from importlib import import_module

import click
import pytest
from click.testing import CliRunner
from page_commands import PAGES, find_words, read_groups, read_text
from places import ROOT

from harness.cli import COMMANDS, cli
from harness.cli.schema import PAGES as PRINTED
from harness.cli.shared.commands_page import render_page
from harness.foundation.errors import ExitCode
from rules.extensions import EXTENSIONS, load_extensions

README = read_text("README.md")
TEXTS = {page: read_text(page) for page in (*PAGES, "CONTRIBUTING.md")}
GROUPS = {page: tuple(read_groups(page)) for page in PAGES}


def all_commands() -> list[tuple[str, str]]:
    """Return every line that a page shows, with its page, once."""
    return sorted({(page, line) for page, groups in GROUPS.items() for group in groups for line in group})


def parsed_commands() -> list[tuple[str, str]]:
    """Return the lines of dlrmbench that have an argument: `dlrmbench serve` alone, or with "…", names a verb."""
    found = [(page, line, find_words(line)) for page, line in all_commands()]
    return [(page, line) for page, line, words in found if words and "…" not in line and len(words.split()) > 1]


@pytest.mark.parametrize(("page", "command"), parsed_commands())
def test_each_command_of_a_page_parses(page: str, command: str) -> None:
    words = shlex.split(find_words(command) or "")
    # As the command line makes it: a command remembers the first help option that it is asked for.
    context: click.Context = click.Context(cli, **cli.context_settings)
    group: click.Command = cli
    while isinstance(group, click.Group):
        subcommand = group.get_command(context, words.pop(0))
        assert subcommand is not None, command
        group = subcommand
    group.make_context(group.name, words, parent=context)


def test_the_submission_of_the_readme_is_of_a_set_whose_logs_name_its_submitter() -> None:
    (row,) = re.findall(r"^\| build a submission \| (.*) \|$", README, flags=re.MULTILINE)
    ran, packaged = (shlex.split(command) for command in re.findall("`(.*?)`", row))
    assert (ran[1], packaged[1]) == ("run", "package")
    assert packaged[2] == ran[ran.index("--name") + 1]
    assert packaged[packaged.index("--submitter") + 1] == ran[ran.index("--submitter") + 1]


@pytest.mark.parametrize("target", [line.split()[1] for _, line in all_commands() if line.startswith("make ")])
def test_each_make_target_of_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("name", PRINTED)
def test_each_page_is_what_the_product_says(name: str) -> None:
    module, page, _ = PRINTED[name]
    printed = import_module(module).render_page()
    kept = (ROOT / page).read_text(encoding="utf-8")
    assert kept.rstrip("\n") == printed.rstrip("\n"), f"run: dlrmbench schema {name} > {page}"


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_each_verb_is_on_the_page_of_commands(verb: str) -> None:
    assert f"### `dlrmbench {verb} " in render_page()


def test_the_page_of_models_has_the_benchmarks_and_workloads_that_list_names() -> None:
    page = TEXTS["reference_models/README.md"].partition("## Benchmarks")[2].partition("\n## ")[0]
    listed = json.loads(CliRunner().invoke(cli, ["list", "--format", "json"]).stdout)
    names = [record["name"] for part in ("benchmarks", "workloads") for record in listed[part]]
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == sorted(names)


@pytest.mark.parametrize(
    ("page", "link"),
    [(page, link) for page, text in TEXTS.items() for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)],
)
def test_each_link_of_the_pages_leads_somewhere(page: str, link: str) -> None:
    assert (ROOT / page).parent.joinpath(link).exists()


def test_the_picture_of_a_page_is_small() -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert (ROOT / picture).read_bytes()[:4] == b"\x89PNG" and (ROOT / picture).stat().st_size <= 200_000


@pytest.mark.parametrize("script", re.findall(r"`python (tests/performance/\w+\.py)", "".join(TEXTS.values())))
def test_each_measurement_that_a_page_names_is_there(script: str) -> None:
    assert (ROOT / script).is_file()


def test_the_table_of_extensions_has_each_with_its_verbs_and_what_it_needs() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(extensions/\w+/README.md\) \| (.+?) \| (.+) \|$", TEXTS["harness/README.md"], re.M
    )
    assert [name for name, _, _ in rows] == sorted(EXTENSIONS)
    for name, verbs, what in rows:
        extension = load_extensions()[name]
        assert re.findall(r"`([\w-]+)`", verbs) == list(extension.verbs)
        assert all(what.endswith(f"needs {need}") for need in extension.needs)


def test_the_picture_of_the_core_names_files_that_are_there() -> None:
    (picture,) = re.findall(r"```text\n(dlrmbench .*?)```", TEXTS["harness/README.md"], flags=re.DOTALL)
    names = re.findall(r"(?:\.\./)?\w+/\w+(?:/\w+)?(?:\.py)?", picture)
    assert len(names) > 20
    assert [name for name in names if not (ROOT / "harness" / name).exists() and not name.startswith("extra/")] == []


def test_each_exit_code_is_on_the_page_of_the_harness() -> None:
    text = TEXTS["harness/README.md"].split("\n## Exit codes\n")[1].split("\n## ")[0]
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [
        int(code) for code in ExitCode
    ]


def test_ci_runs_the_second_command_of_the_readme_and_the_rest() -> None:
    assert re.search(r"\bmake\b.* test test-all$", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)


def test_the_demo_says_what_it_does_and_ends_with_a_command_that_parses() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    (ending,) = re.findall(r"^demo:.*\n\t\$\(BIN\)/dlrmbench run\n\t@echo \"next .*? \$\(BIN\)/(.*)\"$", recipe, re.M)
    test_each_command_of_a_page_parses("Makefile", ending)
    (said,) = re.findall(r"^\$\(VENV\)/demo.stamp:.*\n\t@echo \"installing dlrmbench .*: (.*)\"$", recipe, re.M)
    assert "GB" in said and "minutes" in said and "pip is silent" in said


def test_the_speeds_of_the_readme_are_those_of_the_table() -> None:
    """The least and the greatest ratio to PyTorch of each kind of CPU."""
    _, _, table = TEXTS["reference_models/dlrm/README.md"].partition("| CPU | step | threads | PyTorch |")
    found: dict[str, list[float]] = {}
    cpu = ""
    for row in table.partition("\n\n")[0].splitlines()[2:]:
        name, _, _, ratio = (cell.strip() for cell in row.split("|")[1:5])
        cpu = name or cpu
        kind = next(kind for kind in ("Zen 3", "Zen 4", "Zen 5", "Intel") if kind in cpu)
        found.setdefault({"Zen 3": "Zen 3 and 4", "Zen 4": "Zen 3 and 4"}.get(kind, kind), []).append(
            float(ratio.split()[0])
        )
    (said,) = re.findall(r"- The `optimized` implementation is .*?\n(?=-)", README, flags=re.DOTALL)
    assert len(found) == 3
    for kind, ratios in found.items():
        assert re.search(rf"{min(ratios):g} to {max(ratios):g}\b[^,]*\b{kind}", said.replace("\n", " ")), (kind, said)
