"""Measurements: `python -m benches.micro` by compiled module, `python -m benches.load` for all of it."""
