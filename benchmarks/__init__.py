"""Speed and memory, always as a ratio to a rival in the same run. ``python -m benchmarks`` runs them all."""
