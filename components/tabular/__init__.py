"""What steps share about tables: frames, inputs, scaling, metrics."""
