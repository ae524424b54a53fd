"""One module a revision, numbered in their order."""
