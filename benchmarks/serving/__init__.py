"""One ONNX model behind our server and others, with the same client on the same cores, in one run."""
