"""Web: a page where a person drops a photograph, sees the set with pictures to compare, and decides; and the same for programs.

What answers: ``identify`` (scores → answer), ``references`` (similar pictures), ``batching`` and ``service`` (one network, many
requests). What is kept: ``votes`` (SQLite), ``recent`` (answers that may be voted on), ``review`` (what needs eyes). What comes
in: ``forms``, ``uploads``, ``budgets``, ``safety``. What goes out: ``api`` (JSON), ``openapi``, ``templates`` and
``static`` (pages), ``app`` (routes).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
