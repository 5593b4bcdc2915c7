"""What the JSON files of images with reports hold."""
