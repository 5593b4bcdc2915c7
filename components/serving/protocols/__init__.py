"""The forms in which a model is asked, a file each: named features, and the Open Inference Protocol's tensors."""
