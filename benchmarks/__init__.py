"""Studies and speed ratios; each module prints its table: `python -m benchmarks.<name>`."""
