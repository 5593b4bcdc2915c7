"""The steps of the pipelines: one folder per component, each runnable as `python -m components.<name>`."""
