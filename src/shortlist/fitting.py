"""Base of links and rules: a module whose buffers get their shape when it is fitted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from torch import Tensor, nn

from shortlist.errors import NotFittedError


class Fitted(nn.Module):
    """Module with buffers that do not exist before ``fit``, and that ``load_state_dict`` restores.

    A subclass declares them with ``self.register_buffer(name, None)``. They are part of ``state_dict`` once they exist, and
    ``load_state_dict`` accepts any shape, because only the fit determines it.
    """

    def fitted_buffer(self, name: str, how: str = "fit") -> Tensor:
        """The buffer; if it does not exist yet, an error says what to call first."""
        value = self._buffers[name]
        if value is None:
            raise NotFittedError(f"{self} has not been fitted: call {how}(…) first")
        return value

    @contextmanager
    def whole_or_not(self) -> Iterator[None]:
        """Around a fit: an error inside leaves the module, down to its parts, as it was before."""
        before = [(part, {name: _copied(value) for name, value in vars(part).items()}) for part in self.modules()]
        try:
            yield
        except BaseException:
            for part, values in before:
                vars(part).clear()
                vars(part).update(values)
            raise

    def twin(self) -> Self:
        """A copy with buffers of its own, down to its parts, so that a fit of one changes nothing of the other.

        The tensors are shared, because a fit replaces them; so is a user's generator. ``copy.copy`` makes the same.
        """
        other = object.__new__(type(self))
        other.__dict__ = vars(self).copy()
        other._buffers = dict(self._buffers)
        other._modules = {name: part.twin() if isinstance(part, Fitted) else part for name, part in self._modules.items()}
        return other

    def __copy__(self) -> Self:
        return self.twin()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the buffers with the model but keep their precision: ``model.half()`` must not round a threshold."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            moved = self._buffers[name]
            if old is not None and moved is not None:
                self._buffers[name] = old.to(moved.device)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for name in self._buffers:
            if prefix + name in state_dict:
                self._buffers[name] = state_dict[prefix + name].clone()
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _copied(value: Any) -> Any:
    """A copy of the containers of a module (its buffers and parts), which a fit changes in place; tensors are replaced."""
    return value.copy() if isinstance(value, dict | list | set) else value
