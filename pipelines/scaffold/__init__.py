"""A project of one's own: files that its user owns, written once and updated by three-way merges."""
