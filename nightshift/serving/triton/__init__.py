"""A model repository for Triton Inference Server, built from a model package.

    python -m nightshift.serving.triton --model s3://bucket/package --name fraud --version 2 --output repository

Not a step. `config.py` configures the models, `repository.py` writes the folder. It has three models:
`<name>`, the package's graph; `<name>_features`, which turns JSON, image files or texts into its input (`model.py` in
Triton's Python backend, `features.py` without Triton); and `<name>_raw`, the ensemble of both.
"""
