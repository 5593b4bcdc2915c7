"""How images, texts and the like in requests become the graph's input, as the module `items` of their task says."""
