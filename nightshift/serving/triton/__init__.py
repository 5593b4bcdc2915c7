"""A model repository for Triton Inference Server, made from a model package.

    python -m nightshift.serving.triton --model s3://bucket/package --name fraud --version 2 --output repository

Not a step. `config.py` says how Triton runs a model, `repository.py` writes the folder. There are three models in it:
`<name>`, the package's graph; `<name>_features`, which makes its rows from JSON, image files or texts (`model.py` in
Triton's Python backend, `features.py` without Triton); and `<name>_raw`, the ensemble of both.
"""
