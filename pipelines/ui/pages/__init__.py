"""A file a page: `read` makes its document from a workspace, `show` makes the page from its document alone."""
