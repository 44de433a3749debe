"""The simulator: the real core on the real memory adapter, in virtual time."""

__all__ = ()
