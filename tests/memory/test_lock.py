"""TM-1: what a call does under the lock is synchronous. A look at the source, so that no await can slip in."""

import ast
from pathlib import Path

import pytest

import dispatch_memory_async

PACKAGE = Path(dispatch_memory_async.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
WAITING = (ast.Await, ast.AsyncWith, ast.AsyncFor, ast.Yield, ast.YieldFrom)
UNDER_THE_LOCK = ("cluster.py", "hub.py", "store.py", "truth.py", "faults.py", "config.py", "shapes/*.py")


def lock_blocks(tree: ast.AST) -> list[ast.With | ast.AsyncWith]:
    """Every `with ...lock:`, whatever the lock hangs on."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        and any(ast.unparse(item.context_expr).lower().removesuffix("()").endswith("lock") for item in node.items)
    ]


def waits(tree: ast.AST) -> list[str]:
    """Where something is waited for, or could be, inside a block under a lock."""
    return [
        f"{block.lineno}: {ast.unparse(node)}"
        for block in lock_blocks(tree)
        for node in ast.walk(block)
        if isinstance(node, WAITING) or (isinstance(node, ast.comprehension) and node.is_async)
    ]


def acquires(tree: ast.AST) -> list[str]:
    """Where a lock is taken by hand, past the blocks."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("acquire", "acquire_nowait") and hasattr(node, "lineno")
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(PACKAGE)))
def test_nothing_is_waited_for_under_a_lock_tm_1(source: Path) -> None:
    tree = ast.parse(source.read_text())
    assert waits(tree) == []
    assert acquires(tree) == []


def test_the_calls_do_take_the_lock_tm_1() -> None:
    """Else the test above would say nothing."""
    found = {source: len(lock_blocks(ast.parse(source.read_text()))) for source in SOURCES}
    locking = {source.name for source, blocks in found.items() if blocks and source.parent.name == "memory"}
    assert locking == {"backend.py", "cluster.py", "env.py"}


@pytest.mark.parametrize("pattern", UNDER_THE_LOCK)
def test_what_is_called_under_the_lock_has_no_coroutines_tm_1(pattern: str) -> None:
    sources = list((PACKAGE / "memory").glob(pattern))
    assert sources
    for source in sources:
        coroutines = [
            node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.AsyncFunctionDef)
        ]
        assert [node.name for node in coroutines] == []


@pytest.mark.parametrize(
    "body",
    [
        "await checkpoint()",
        "return await self._act()",
        "async for item in watch: pass",
        "async with watch: pass",
        "yield 1",
        "found = [item async for item in watch]",
        "if closed:\n            await checkpoint()",
    ],
)
@pytest.mark.parametrize("lock", ["with self._lock", "with cluster.lock", "async with self.lock", "with make_lock()"])
def test_the_look_would_find_it(lock: str, body: str) -> None:
    assert waits(ast.parse(f"async def call(self):\n    {lock}:\n        {body}\n"))
