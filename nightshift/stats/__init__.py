"""Statistics that know nothing of steps or tasks: arrays and frames in, figures out."""
