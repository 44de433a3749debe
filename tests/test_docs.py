"""The documentation is true: its code runs, its tables agree with the library, and it names every rule."""

import builtins
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import pytest

from dispatch_memory_async import (
    Action,
    Backend,
    Capability,
    Config,
    DispatchError,
    InvalidError,
    Shape,
    Tristate,
    encode_settings,
    format_duration,
    model,
    parse_duration,
    registry,
)

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]

NOT_RUN: dict[str, str] = {}
"""Python blocks that are not executed, by the page and the first line; and why."""

NOT_RUN_COMMANDS = {
    "python -m venv": "the tests run in an environment already",
    ". venv": "the tests run in an environment already",
    "pip install": "a test has no network",
}
"""Commands of console blocks that are not executed, by how they begin; and why."""

FENCE = re.compile(
    r"^```(?:(?P<language>\w+)|"
    r"\{code-block\} (?P<directive>\w+)\n:caption: (?P<file>[\w.]+)(?P<more> \(continued\))?\n)\n"
    r"(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """One fenced block: code to be executed, a file to be written, or commands with what they print."""

    page: Path
    line: int
    language: str
    code: str
    file: str | None
    more: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("code")) + 1,
            found["language"] or found["directive"],
            found["code"],
            found["file"],
            bool(found["more"]),
        )
        for found in FENCE.finditer(text)
    ]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def runnable(page: Path) -> list[Block]:
    """The blocks that are executed in the page's namespace."""
    return [
        block
        for block in blocks(page)
        if block.language == "python" and block.file is None and f"{name(page)}:{first_line(block)}" not in NOT_RUN
    ]


def first_line(block: Block) -> str:
    return block.code.partition("\n")[0]


WITH_CODE = [page for page in PAGES if runnable(page)]
WITH_FILES = [page for page in PAGES if any(block.file or block.language == "console" for block in blocks(page))]


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_code_runs(page: Path, event_loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """6 US-7: a page's Python blocks run from top to bottom in one namespace, on either event loop."""
    monkeypatch.setattr(anyio, "run", partial(anyio.run, backend=event_loop))
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))  # pyright: ignore[reportPrivateUsage]  # a page registers
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in runnable(page):
        padded = "\n" * (block.line - 1) + block.code
        exec(compile(padded, page, "exec", dont_inherit=True), namespace)  # noqa: S102


@pytest.mark.parametrize("page", WITH_FILES, ids=name)
def test_files_do_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """6 US-7: a reader who writes the page's files and types its commands sees what the page shows."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # for speed: of all plugins it takes anyio's
    monkeypatch.setenv("PYTEST_PLUGINS", "anyio.pytest_plugin")
    for block in blocks(page):
        if block.file:
            target = tmp_path / block.file
            target.write_text((target.read_text() + "\n\n" if block.more else "") + block.code)
        elif block.language == "console":
            for command, shown in commands(block):
                printed = run(command, tmp_path)
                lines = {line.strip("= ") for line in printed.splitlines()}
                for expected in shown:
                    assert expected.strip("= ") in lines, f"{name(page)}:{block.line}: {command} printed\n{printed}"


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block that is run, and the lines that it prints."""
    for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        if not command.startswith(tuple(NOT_RUN_COMMANDS)):
            yield command, [lasting(line) for line in shown if line not in {"...", ""}]


def lasting(text: str) -> str:
    """A text without what is another in every run, or with every check that the conformance suite gains."""
    text = re.sub(r" in [\d.]+s\b(?: \([\d:]+\))?", "", text)
    text = re.sub(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "(ULID)", text)
    return re.sub(r"\b\d{2,}(?= (?:passed|skipped|deselected)\b)", "(many)", text)


def run(command: str, where: Path) -> str:
    """What a command prints. Those of the documentation all run a Python module."""
    python, *arguments = shlex.split(command)
    assert python == "python", command
    done = subprocess.run(  # noqa: S603  # the command stands in our own documentation
        [sys.executable, *arguments], cwd=where, capture_output=True, text=True, check=False
    )
    return lasting(done.stdout + done.stderr)


def test_no_python_block_is_overlooked() -> None:
    """6 US-7: every fence that holds Python is one of the blocks that are run, or is listed with a reason."""
    fence = re.compile(r"^ *(?:```|~~~|:::)\S* *\S*(?:py|pycon|python)\b", re.MULTILINE)
    for page in PAGES:
        python = [block for block in blocks(page) if block.language == "python"]
        assert len(fence.findall(page.read_text(encoding="utf-8"))) == len(python), name(page)
    every = {f"{name(page)}:{first_line(block)}" for page in PAGES for block in blocks(page)}
    assert every.issuperset(NOT_RUN)


RULES = [
    f"{kind}-{number}"
    for kind, count in {"SL": 14, "KF": 11, "TM": 7, "LT": 4, "WA": 5, "NP": 3}.items()
    for number in range(1, count + 1)
]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_explained_and_held_against_the_real_scheduler(rule: str) -> None:
    """6 US-7: each rule has a heading with its id and an anchor, and a row on the agreement page."""
    explained = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "explanation").glob("*.md"))
    assert len(re.findall(rf"^\({rule.lower()}\)=\n##+ {rule}: ", explained, re.MULTILINE)) == 1
    agreement = (DOCS / "agreement.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| \[{rule}\]\(#{rule.lower()}\) ", agreement, re.MULTILINE)


def table(page: str, header: str) -> list[list[str]]:
    """The cells of the table that begins so, without its header."""
    lines = (DOCS / page).read_text(encoding="utf-8").split(f"| {header} |", 1)[1].split("\n\n", 1)[0].splitlines()
    return [[cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


SETTINGS = table("reference/memory.md", "Field")


def test_the_settings_table_lists_every_setting() -> None:
    """2.1: fields, keys and defaults are those of Config."""
    defaults = json.loads(encode_settings(Config()))
    assert [row[0] for row in SETTINGS] == [field.name for field in msgspec.structs.fields(Config)]
    assert [row[1] for row in SETTINGS] == list(defaults)
    for field, key, default, *_ in SETTINGS:
        value = getattr(Config(), field)
        shown = format_duration(parse_duration(default)) if isinstance(value, timedelta) else default
        found = defaults[key]
        assert shown == (found if isinstance(found, str) else json.dumps(found)), field


@pytest.mark.parametrize("row", [row for row in SETTINGS if row[3]], ids=lambda row: row[0])
def test_the_settings_table_gives_the_ranges(row: list[str]) -> None:
    """2.1: the ends of each range are taken, and what lies beyond is refused."""
    field, _, _, wide, _ = row
    if field == "shape":
        assert [part.strip(" `") for part in wide.split(",")] == list(Shape)
        return
    unit = timedelta(microseconds=1) if isinstance(getattr(Config(), field), timedelta) else 1
    lowest, *highest = (int(end) for end in re.findall(r"\d+", wide))
    for end, step in [(lowest, -1), *((end, 1) for end in highest)]:
        msgspec.structs.replace(Config(), **{field: end * unit})
        with pytest.raises(InvalidError):
            msgspec.structs.replace(Config(), **{field: (end + step) * unit})


@pytest.mark.parametrize("column", [1, 2], ids=list(Shape))
async def test_the_capabilities_table_says_what_the_shapes_declare(column: int) -> None:
    """2.1: capabilities without overrides; every rule a yes, nothing native."""
    async with Backend(Config(shape=list(Shape)[column - 1])) as b:
        found = await b.capabilities()
    shown = {row[0]: row[column] for row in table("reference/memory.md", "Capability")}
    assert shown == {str(capability): str(found.support[capability].value) for capability in Capability}
    assert {found.rules[action].value for action in Action} == {Tristate.YES}
    assert {found.native[action].value for action in Action} == {Tristate.NO}


def test_the_errors_table_lists_every_error_and_what_it_is_too() -> None:
    """1.2: the table's first two columns are the classes and their other bases."""
    errors = {
        error.__name__: error
        for error in vars(model).values()
        if isinstance(error, type) and issubclass(error, DispatchError) and error is not DispatchError
    }
    rows = table("reference/errors.md", "Error")
    assert {row[0] for row in rows} == set(errors)
    for error, other, _ in rows:
        bases = [base for base in errors[error].__bases__ if base is not DispatchError]
        assert bases == ([errors.get(other) or getattr(builtins, other)] if other else []), error
