"""What images, texts and rows share: one class of several for each."""
