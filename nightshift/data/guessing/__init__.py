"""Guesses a config from a file: how it is written, what its columns are, which days train and test.

Nothing here reads or writes files. A guess is an assumption with its reason, made on a sample; `nightshift config
guess` ingests every row with the config before it writes it.
"""
