"""How the documentation site is built: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``."""

# ruff: noqa: PLR0917  # the arguments of a handler are Sphinx's

import re
import sys
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.inspect import stringify_signature
from sphinx.util.typing import stringify_annotation

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

project = "dispatch-memory-async"
author = "The dispatch-memory-async developers"
copyright = f"2026, {author}"  # noqa: A001  # the name is Sphinx's

extensions = ["myst_parser", "sphinx.ext.autodoc", "rule_index", "check_index"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = project

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 80
python_use_unqualified_type_names = True

nitpicky = True
# Builds have no network, so nothing of the standard library or of our dependencies can be linked to.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(collections(?:\.abc)?|concurrent|contextlib|datetime|enum|os|types|typing|ulid|ulid\.ULID|msgspec)\..*",
    ),
]

HANDED_OUT = {"Env", "MemoryWatch", "Resubscribing", "View"}
"""Classes that a user is given and does not make: their constructors are nobody's business."""

_IVAR = re.compile(r"\s*:ivar (\w+):\s*(.*)")


def is_struct(thing: object) -> bool:
    """Whether this is one of our values, whose fields are annotations."""
    return isinstance(thing, type) and issubclass(thing, msgspec.Struct)


def shorten_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: object, given: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """Show a value's fields without their bounds, and no constructor where nobody calls one."""
    del app, what, options, given
    if getattr(thing, "_is_protocol", False) or name.rpartition(".")[2] in HANDED_OUT:
        return "", returned
    if not is_struct(thing):
        return None
    hints = get_type_hints(thing)
    factories = {field.name: field.default_factory for field in msgspec.structs.fields(thing)}
    fields: list[Parameter] = []
    for field in signature(thing).parameters.values():
        made = factories[field.name] is not msgspec.NODEFAULT
        default = factories[field.name]() if made else field.default
        fields.append(field.replace(annotation=hints[field.name], default=default))
    return stringify_signature(Signature(fields), unqualified_typehints=True), returned


def fields_as_attributes(app: Sphinx, what: str, name: str, thing: Any, options: object, lines: list[str]) -> None:
    """Turn a value's ``:ivar:`` list into attributes, which have a type and can be linked to."""
    del app, options
    if what not in {"class", "exception"} or not is_struct(thing):
        return
    told: dict[str, list[str]] = {}
    kept: list[str] = []
    current: list[str] | None = None
    for line in lines:
        if found := _IVAR.fullmatch(line):
            current = told[found[1]] = [found[2]]
        elif current is not None and line.strip():
            current.append(line.strip())
        else:
            current = None
            kept.append(line)
    hints = get_type_hints(thing)
    own = [field for field in thing.__struct_fields__ if field in thing.__annotations__]
    if missing := told.keys() - set(own):
        raise ValueError(f"{name}: its docstring tells of {sorted(missing)}, which it has not")
    for field in own:
        text = [f"   {line}" for line in told.get(field, [])]
        kept += [
            "",
            f".. py:attribute:: {field}",
            f"   :type: {stringify_annotation(hints[field], 'smart')}",
            "",
            *text,
        ]
    lines[:] = [*kept, ""]


def constants_of_submodules(app: Sphinx, what: str, name: str, thing: Any, options: object, lines: list[str]) -> None:
    """Find the text beside a constant that a package hands on from one of its modules."""
    del app, thing, options
    package, _, constant = name.rpartition(".")
    if what != "data":
        return
    for module in sorted(module for module in sys.modules if module.startswith(f"{package}.")):
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        if text := analyzer.attr_docs.get(("", constant)):
            lines[:] = text


def setup(app: Sphinx) -> None:
    """Let Sphinx ask us."""
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", fields_as_attributes)
    app.connect("autodoc-process-docstring", constants_of_submodules)
