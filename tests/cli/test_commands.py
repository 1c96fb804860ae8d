"""Help, completion, suggestions and --json of all commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cgmcr2.cli import commands, run
from cgmcr2.cli.program import _command

COMMANDS = [module.__name__.rpartition(".")[2].rstrip("_").replace("_", "-") for module in commands.MODULES]


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_summaries_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    output = capsys.readouterr().out
    assert "..." not in output.replace("[ARGS]...", "")
    assert all(f"\n  {name} " in output for name in COMMANDS)
    assert "--install-completion" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_usage_and_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    output = capsys.readouterr().out
    assert output.startswith(f"Usage: cgmcr2 {name} [OPTIONS]")
    assert "{" not in output
    assert "--json" in output
    examples = output.partition("\n  Examples:\n")[2].splitlines()
    assert examples
    assert all(line.startswith(f"    cgmcr2 {name}") for line in examples)
    assert max(map(len, output.splitlines())) <= 80


def test_choices_and_arguments_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cluster", "-h") == 0
    output = capsys.readouterr().out
    assert output.startswith("Usage: cgmcr2 cluster [OPTIONS] SOURCE\n")
    assert "--preset [auto|paper|reference]" in output


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("cgmcr2 0.")


def test_similar_commands_and_options_are_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("clutser") == 2
    assert "Did you mean 'cluster'?" in capsys.readouterr().err
    assert run("cluster", "--seeed", 3) == 2
    assert "--seed" in capsys.readouterr().err.partition("--seeed")[2]


def test_invalid_choices_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cluster", "photos", "-k", 3, "-o", "run", "--preset", "best") == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message == "Error: Invalid value for '--preset': 'best' is not one of 'auto', 'paper', 'reference'."


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_invalid_seeds_are_one_sentence(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cluster", "photos", "-k", 3, "-o", "run", "--seed", seed) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message == f"Error: Invalid value for '--seed': {seed} is not an integer from 0 to 2**32 - 1."


def test_completion_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    _command.cache_clear()  # the parser reads the variable when it is built
    assert run("--show-completion", "bash") == 0
    assert "complete -o default -F _cgmcr2_completion cgmcr2" in capsys.readouterr().out
    _command.cache_clear()


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from cgmcr2.cli import run\n"
        "run('cluster', '--help')\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'sklearn', 'PIL', 'tqdm'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_json_of_every_command(
    features: Path,
    fitted: Path,
    photos: Path,
    photo_run: Path,
    quick: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    encoder = ["--encoder", "colours"]
    for words, key in (
        (["cluster", photos, "-k", 3, "-o", photo_run, *encoder, *quick], "clusters"),
        (["fit", features, "-k", 10, "-o", fitted, *quick], "clusters"),
        (["predict", fitted, features, "-o", tmp_path / "labels.csv"], "clusters"),
        (["choose-k", features, "--most", 5], "chosen"),
        (["evaluate", fitted, features], "acc"),
        (["export", photo_run, "-o", tmp_path / "folders"], "missing"),
        (["report", photo_run, "-o", tmp_path / "page.html", "--map", "pca"], "report"),
        (["embed", photos, "-o", tmp_path / "store", *encoder], "images_per_second"),
        (["doctor"], "device"),
    ):
        assert run(*words, "--json") == 0
        assert key in json.loads(capsys.readouterr().out), words
    for name in ("encoders", "datasets"):
        assert run(name, "--json") == 0
        assert len(json.loads(capsys.readouterr().out)) >= 9
