"""Models and what they are made of: networks and their trainer, recipes, graphs, weights."""
