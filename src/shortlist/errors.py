"""What can go wrong with what a person gives us, in one sentence each."""


class InputError(ValueError):
    """Something that was passed in is not what was expected; the message says what was, what came, what to do."""


class NotFittedError(InputError):
    """A link or a rule is used before ``fit`` (or ``update``) gave it its numbers."""


class NotConvergedError(InputError):
    """A fit has no finite optimum on these data, or did not reach it."""


class ShortlistWarning(UserWarning):
    """The answer is valid, and a person would want to know how it came about."""
