"""What steps share about the tasks that tell classes of images and texts apart."""
