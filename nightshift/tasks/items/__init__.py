"""Tasks about any items, such as images or texts, whether they have classes or not."""
