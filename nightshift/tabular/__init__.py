"""What steps share about tables: frames, windows, inputs, scaling, metrics."""
