"""The forms in which a model is asked, a file each: features, raw events, images and texts, and tensors."""
