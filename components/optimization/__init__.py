"""Optimization: the variant of the selected graph that is served.

Reads a model package and, if the config names another variant than the original, the validation days of the features.
Builds that variant: ONNX Runtime's optimized graph, or INT8 with scales measured per call (dynamic) or on the package's
sample of training rows (static). It replaces the original if its loss of the metric is within a small limit, by the
paired 95 % interval, and its decisions agree. The fastest variant is measured once, by `nightshift optimize`, so that
equal nights serve equal bytes. If the config lists types of GGUF files for engines, the smallest file that passes its
gate goes into the package. Writes `verdict.json`, `optimization.json` and the package, whose manifest is the last file.
"""
