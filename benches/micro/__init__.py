"""One file per compiled module, measured with pyperf: `python -m benches.micro [NAME ...]`."""
