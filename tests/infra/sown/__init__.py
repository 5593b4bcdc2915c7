"""Realistic mistakes, sown into copies of `infra/`, and whether the policies know each for what it is."""
