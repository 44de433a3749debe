"""Adapters to start from."""
