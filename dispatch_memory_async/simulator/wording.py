"""Wording: what a write has changed in a record, in a few words."""

from ..core import Ask, Charge, Chosen, End, Hold, Intent, Record, Said, Verdict

__all__ = ("differences",)


def differences(before: Record, after: Record) -> str:
    """The fields that were changed, and to what."""
    fields = [name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    said = [f"{name} {_brief(getattr(after, name))}" for name in fields if name not in ("version", "past")]
    return ", ".join(said) or "nothing new"


def _brief(found: object) -> str:  # noqa: PLR0911  # a line each
    match found:
        case None:
            return "none"
        case Hold():
            marks = "acknowledged " * found.acked + "withdrawn " * found.refused
            return f"{marks}instance {found.instance} by {found.by}"
        case Chosen():
            why = f", stopped for {found.stopped_for}" if found.stopped_for else ""
            return f"submission {found.submission}, restarts {found.restarts}{why}"
        case Intent():
            return str(found.kind)
        case End() | Verdict():
            return f"{found.state} ({found.cause})" if found.cause else str(found.state)
        case Charge():
            return "to no rule" if found.rule is None else f"to rule {found.rule + 1}"
        case Said():
            return f"by {found.ask.by}"
        case Ask():
            return f"by {found.by}"
        case _:
            return str(found)
