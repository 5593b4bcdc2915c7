"""Images, texts and other items of requests: their form, and their decoding to the inputs of a graph."""
