"""Run every mutant, or those of the rules that are named: `python -m tests.mutants [RULE ...]`.

Each is a copy of the package with one patch, tested (on one event loop) by the files that name its rule. One that no
test notices, and a patch that fits no more, is reported; the exit status is 1 if there is any.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .patches import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dispatch_memory_async"


def naming(rule: str) -> list[str]:
    """The test files that name a rule, the quickest to read first."""
    word = re.compile(rf"\b{re.escape(rule)}\b")
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if word.search(path.read_text())]
    skipped = {"test_machine.py", "test_house.py", "test_docs.py", "test_matrix.py"}
    return [str(path) for path in sorted(files, key=lambda path: path.stat().st_size) if path.name not in skipped]


def verdict(mutant: Mutant | None) -> str:
    """`caught`, or what is the matter; without a mutant `sound`, or what is."""
    rules = {one.rule for one in MUTANTS} if mutant is None else {mutant.rule}
    files = list(dict.fromkeys(file for rule in rules for file in naming(rule)))
    if not files:
        return "no test file names the rule"
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / PACKAGE.name
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant:
            source = (PACKAGE / mutant.module).read_text()
            if source.count(mutant.text) != 1:
                return f"the patch stands there {source.count(mutant.text)} times, expected once"
            (copy / mutant.module).write_text(source.replace(mutant.text, mutant.instead))
        options = ["-x", "-q", "-k", "not trio", "-p", "no:cacheprovider", "-o", f"pythonpath={place} {ROOT}"]
        try:
            done = subprocess.run(  # noqa: S603  # our own interpreter on our own files
                [sys.executable, "-m", "pytest", *options, *files],
                cwd=ROOT,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=300 if mutant else 1800,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "caught"  # it waits for ever, as a test would notice
    if mutant is None:
        return "sound" if not done.returncode else done.stdout[-2000:]
    if done.returncode == 1 and re.search(r"^FAILED|^ERROR", done.stdout, re.MULTILINE):
        return "caught"
    return f"survived ({done.stdout.strip().splitlines()[-1:]})"


def main(rules: list[str]) -> int:
    """Run the mutants and print a line for each."""
    mutants = [mutant for mutant in MUTANTS if not rules or mutant.rule in rules]
    failures = 0
    if (sound := verdict(None)) != "sound":
        print(f"the tests fail without any mutant, and so show nothing:\n{sound}")
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (mutant, outcome) in enumerate(zip(mutants, pool.map(verdict, mutants), strict=True), 1):
            failures += outcome != "caught"
            shown = " ".join(mutant.text.split())[:60]
            print(f"{number:3}/{len(mutants)} {mutant.rule:10} {outcome:10} {mutant.module}: {shown}", flush=True)
    print(f"{len(mutants) - failures} of {len(mutants)} mutants caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
