"""Training: fit the candidates, choose one on the validation days, fit all again on the newest labeled days.

Reads the features manifest and its partitions. Writes the model: an ONNX graph per candidate, scalers inside,
a sample of the training rows with their scores, and `model.json`, by which the folder is complete.
"""
