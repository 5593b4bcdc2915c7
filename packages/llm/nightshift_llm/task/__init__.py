"""Language models: how likely each token of a text is after those before it. No row has a label."""
