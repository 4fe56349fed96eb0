"""GPU forms of functions whose plain form is in ``operators`` and ``losses``: the same values and gradients, in fewer passes.

Each module here holds the operators of one function and its autograd; ``device`` holds the Triton code, which is imported
when the first CUDA tensor arrives, never before. :func:`use_kernels` switches them off.
"""

from shortlist.kernels.choice import use_kernels

__all__ = ["use_kernels"]
