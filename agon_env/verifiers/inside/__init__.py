"""Programs that run inside sandboxes. Their text is handed in, so they import nothing of this package but each other."""
