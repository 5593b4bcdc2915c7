"""Rules on the meaning of an environment's plan and manifests, by kind, each with its source.

A schema takes a key that no service sends, a group of the neighbor's, a retention of ten years. These rules, which
judge anybody's environment, know what the clouds send, what images and APIs fix, and what refers to what. `tables/`
holds what is looked up.
"""
