"""Every command line in the documentation runs, and prints what the page says."""

import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("click")

from click.testing import CliRunner

from calibrant.cli.program import calibrant

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command_line.md"
PAGES = [PAGE, ROOT / "README.md", ROOT / "docs" / "llm.md", ROOT / "docs" / "studies" / "writing.md"]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"^:caption: *`?([^`\n]+)`?$", re.MULTILINE)


def files_of(page: Path) -> dict[str, str]:
    """Return the files that a page shows, by their captions."""
    found = {}
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        caption = CAPTION.search(fence["body"])
        if fence["info"].startswith("{code-block}") and caption:
            found[caption[1]] = fence["body"].partition("\n\n")[2]
    return found


def commands_of(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of blocks that use ours, each with the lines that it prints; on its page, of all blocks."""
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if fence["info"].strip() != "console" or not (page == PAGE or "$ calibrant " in fence["body"]):
            continue
        # A backslash at the end of a line continues the command.
        body = fence["body"].replace("\\\n", " ")
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, *printed = part.rstrip().splitlines()
            yield " ".join(command.split()), [line.rstrip() for line in printed]


class Shell:
    """Runs commands in a folder; our own within this process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code = folder, 0

    def __call__(self, command: str) -> str:
        words = shlex.split(command, comments=True)
        if command == "echo $?":
            return f"{self.code}\n"
        if words[0] == "calibrant":
            result = CliRunner().invoke(calibrant, words[1:], prog_name="calibrant")
            self.code = result.exit_code
            return result.output
        if words[0] == "python":
            runpy.run_path(str(self.folder / words[1]), run_name="__main__")
            return ""
        return subprocess.run(
            command, shell=True, cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout


def matches(printed: list[str], expected: list[str]) -> bool:
    """Compare lines; a line of three dots stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {**files_of(PAGE), **files_of(page)}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    shell = Shell(tmp_path)
    if page != PAGE:  # the page of the command line makes its own files, for others as well
        for name in files_of(PAGE):
            if name.endswith(".py"):
                shell(f"python {name}")
    for command, expected in commands_of(page):
        printed = shell(command)
        assert matches(printed.splitlines(), expected), f"$ {command}\n{printed}"


def test_the_page_has_every_command():
    used = {command.split()[1] for command, _ in commands_of(PAGE) if command.startswith("calibrant ")}
    with_context = calibrant.list_commands(None)
    assert used >= set(with_context) - {"demo"}


@pytest.mark.parametrize("command", calibrant.list_commands(None))
def test_the_page_names_every_option(command):
    """So that none is added without a word on the page."""
    text = PAGE.read_text(encoding="utf-8")
    found = calibrant.get_command(None, command)
    for each in (found, *getattr(found, "commands", {}).values()):
        for parameter in each.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert f"`{option}" in text or f" {option} " in text, option
