"""Readers of published datasets and of your own files: each returns a :class:`~shortlist.data.Dataset`."""
