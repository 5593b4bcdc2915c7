"""Rules on the meaning of an environment's plan and manifests, by subject, each with its source.

A schema accepts an event that no service sends, another pool's security group, a retention of ten years. These rules,
for any environment, know what clouds send, what images and APIs require, and which names must agree. `tables/` holds
the data that they look up.
"""
