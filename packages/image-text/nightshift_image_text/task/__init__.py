"""What the steps ask of images with reports, a module a question."""
