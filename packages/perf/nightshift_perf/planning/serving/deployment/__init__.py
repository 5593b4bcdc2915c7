"""A fleet as files for Kubernetes: an engine's pods, the pool and the route to them, scaling, monitoring, a dashboard.

`engines.py` has what differs between vLLM and TensorRT-LLM, `manifests.py` the objects, `dashboard.py` the dashboard
and `files.py` the folder. `nightshift perf plan --serve --write DIR` calls them.
"""
