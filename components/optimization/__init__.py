"""Optimization: forms of the selected graph that score the same, faster.

Reads a model package and the validation days of the features. Makes ONNX Runtime's optimized graph, and INT8 with
scales measured at each call (dynamic) or on the package's sample of training rows (static); where ONNX Runtime has them
it also measures CUDA and TensorRT. A form takes the original's place when it loses no more than a little average
precision, or accuracy, at the end of the paired 95 % interval, decides alike, and is clearly faster. Writes
`verdict.json`, `optimization.json` and the package, whose manifest is the last file: with the fastest form, or as it
was.
"""
