"""Mutants: each takes back one rule of the adapter by a small patch, and must make a test that names the rule fail."""
