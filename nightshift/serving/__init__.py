"""The model server: scores features, raw events, items and tensors with a registry's champion, or with one package.

    python -m nightshift.serving --registry registry --name fraud --port 8321
    python -m nightshift.serving --model s3://bucket/package --name fraud --host 0.0.0.0 --token-file token

Not a step. `http.py` is the transport, `application.py` has the routes, `protocols/` the request formats,
`batching.py` batches the rows of requests, `versions.py` loads the model and replaces it.
"""
