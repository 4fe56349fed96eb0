"""Readers of published layouts and of anybody's own files: each returns a :class:`~shortlist.data.Dataset`."""
