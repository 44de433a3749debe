"""The conformance suite on the memory adapter, whole and broken on purpose."""
