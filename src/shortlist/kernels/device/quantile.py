"""A rough normal quantile, from which kernels that look for a level start."""

import triton
import triton.language as tl


@triton.jit
def upper_quantile(share):
    """The number that a standard normal one exceeds with this probability, to three digits (Hastings 1955)."""
    tail = tl.minimum(share, 1.0 - share)
    t = tl.sqrt(-1.3862944 * tl.log2(tl.maximum(tail, 1e-30)))
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    return tl.where(share > 0.5, -x, x)
