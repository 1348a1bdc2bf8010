"""Benchmarks: `python -m bench [part …]`. Each figure stands beside a baseline of the same run."""
