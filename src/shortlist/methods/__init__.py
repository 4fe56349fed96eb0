"""Methods, chosen by name: a head, a loss and a link, with the parameters of the paper."""

from shortlist.methods.menu import Method, all_methods, find_method, register_method
from shortlist.methods.suggestions import Suggestion, suggest_parameters

__all__ = ["Method", "Suggestion", "all_methods", "find_method", "register_method", "suggest_parameters"]
