"""The conformance suite on a real Slurm; see ``python -m tests.fidelity --help``."""
