"""Optimization: the selected graph in the form that is served.

Reads a model package and, where the config names another form than the original, the validation days of the features.
Makes that form: ONNX Runtime's optimized graph, or INT8 with scales measured at each call (dynamic) or on the package's
sample of training rows (static). It takes the original's place when it loses no more than a little of the metric, at
the end of the paired 95 % interval, and decides alike. Which form is fastest was measured once, by `nightshift
optimize`, so that equal nights serve equal bytes. Where the config wants a file by which an engine generates text, the
smallest that its gate passes goes into the package. Writes `verdict.json`, `optimization.json` and the package, whose
manifest is the last file.
"""
