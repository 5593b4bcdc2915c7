"""One ONNX model behind our server and behind others, asked by the same client on the same cores, in one run."""
