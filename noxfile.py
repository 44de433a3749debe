"""The project's sessions: `nox` runs all that must pass, `nox -s NAME` one, `nox -l` lists them."""

import os

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests", "mutants", "matrix", "docs", "demo"]

GROUPS = nox.project.load_toml("pyproject.toml")
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def install(session: nox.Session, *groups: str) -> None:
    """Install the project as it stands here, with dependency groups."""
    session.install("-q", "-e", ".[cli]", *nox.project.dependency_groups(GROUPS, *groups))


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint rules, and the walls between the floors of the package."""
    install(session, "lint")
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Both type checkers, strict, over package and tests; and that every public type is known."""
    install(session, "types")
    session.run("mypy")
    session.run("pyright")
    session.run("pyright", "--verifytypes", "dispatch_memory_async", "--ignoreexternal")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests, on every Python that is found."""
    install(session, "test")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def thorough(session: nox.Session) -> None:
    """The state machine of the memory adapter at length: 2,000 examples of 50 steps."""
    install(session, "test")
    session.run("python", "-m", "pytest", "tests/memory/test_machine.py", env={"HYPOTHESIS_PROFILE": "thorough"})


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, warnings as errors."""
    install(session, "docs")
    session.run("python", "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session
def demo(session: nox.Session) -> None:
    """The demo, in both shapes."""
    install(session)
    for shape in ("slurm", "kubeflow"):
        session.run("dispatch-memory", "demo", "--shape", shape)


@nox.session
def bench(session: nox.Session) -> None:
    """The figures: each a ratio within one run."""
    install(session, "bench")
    session.run("python", "-m", "tests.benchmarks", *session.posargs, env=dict(os.environ))


@nox.session
def mutants(session: nox.Session) -> None:
    """Every rule taken back once by a small patch: each must make a test that names the rule fail."""
    install(session, "test")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session
def fidelity(session: nox.Session) -> None:
    """The suite and the scripts on a real Slurm, installed by apt and brought up here: on a Debian, as root."""
    install(session, "test")
    session.run("sh", "tests/fidelity/install.sh", external=True)
    session.run("python", "-m", "tests.fidelity", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """The simulator's report in a headless Chromium, which is installed by apt: on a Debian, as root."""
    install(session, "browser")
    session.run("sh", "tests/simulator/install.sh", external=True)
    session.run(
        "python", "-m", "pytest", "-m", "browser", "tests/simulator/test_report_in_browser.py", *session.posargs
    )


@nox.session
def matrix(session: nox.Session) -> None:
    """The conformance suites on broken adapters and cores: each check catches one, each one that shows is caught."""
    install(session, "test")
    session.run("python", "-m", "pytest", "-m", "matrix", "tests/conformance", *session.posargs)


@nox.session
def kills(session: nox.Session) -> None:
    """A process that writes records is killed with SIGKILL 200 times: nothing that it was answered is lost."""
    install(session, "test")
    session.run("python", "-m", "tests.kills", *session.posargs)
