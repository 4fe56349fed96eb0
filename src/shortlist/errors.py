"""Errors and warnings about the user's input."""


class InputError(ValueError):
    """An argument or a file is not what was expected; the message says what was expected, what was given, and what to do."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The message as lines: a single one, unless a subclass says otherwise. A name in it may hold a line end of its own."""
        return (str(self),)


class NotFittedError(InputError):
    """A link or a rule is used before ``fit`` (or ``update``) was called."""


class NotConvergedError(InputError):
    """A fit has no finite optimum on these data, or did not reach it."""


class ShortlistWarning(UserWarning):
    """The result is valid, but the user should know something about how it was obtained."""
