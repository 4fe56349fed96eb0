"""A garden that we make: species whose law is known, so that the best possible answer to every picture is known too."""

from shortlist.data.flora.garden import Flora
from shortlist.data.flora.limits import Limits, best_accuracies

__all__ = ["Flora", "Limits", "best_accuracies"]
