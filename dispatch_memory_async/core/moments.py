"""Moments that are never too late to be told."""

from datetime import UTC, datetime, timedelta

__all__ = ("NEVER", "after")

NEVER = datetime.max.replace(tzinfo=UTC)


def after(moment: datetime, span: timedelta) -> datetime:
    """So long after a moment, or :data:`NEVER`."""
    return moment + span if span < NEVER - moment else NEVER
