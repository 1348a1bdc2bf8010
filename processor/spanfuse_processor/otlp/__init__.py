"""Bytes to spans to calls."""
