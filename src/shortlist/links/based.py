"""What links on top of another link share: the base, which is applied first."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from shortlist.errors import InputError, NotFittedError
from shortlist.links.link import Link, link_from_config
from shortlist.tensors import Scores
from shortlist.words import shown

Base: TypeAlias = Link | dict[str, Any] | None


class BasedLink(Link):
    """A map on top of a base link; what its configuration and its state dict contain of the base goes with it."""

    base: Link | None

    def __init__(self, base: Base = None):
        super().__init__()
        self.base = link_from_config(base) if isinstance(base, dict) else base
        if self.base is not None and not isinstance(self.base, Link):
            raise InputError(f"base: expected a link or None, got {shown(base)}")

    def config(self) -> dict[str, Any]:
        """What ``link_from_config`` needs, including the configuration of the base."""
        return {"kind": self.kind, "base": self.base.config() if self.base else None}

    def missing_buffers(self) -> list[str]:
        """The missing buffers of this link, and those of the base as ``base.NAME``."""
        below = [] if self.base is None else self.base.missing_buffers()
        return [*super().missing_buffers(), *(f"base.{name}" for name in below)]

    def check_names(self, names: Sequence[str] | None) -> None:
        """As declared by :class:`Link`, for the base."""
        if self.base is not None:
            self.base.check_names(names)

    def _checked(self, scores: Scores) -> Scores:
        scores = super()._checked(scores)
        return scores if self.base is None else self.base._checked(scores)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`, for this link and its base."""
        if self.base is not None:
            self.base.check_buffers()

    def _fitted_base(self) -> Link:
        if self.base is None:
            raise NotFittedError(f"{self} has not been fitted: call fit(…) first")
        return self.base

    def __repr__(self) -> str:
        return self.kind if self.base is None else f"{self.kind}({self.base!r})"
