"""The operator's view that spans packages: health and metrics."""
