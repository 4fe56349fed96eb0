"""Exact order statistics: histograms of the digits of the values, the leading digit first.

A value is found by its key, an unsigned integer in the order of the floats. Round r counts digit r of the values whose
earlier digits are those of the value that is sought; the next round looks up the rank in those counts. ``state`` holds the
earlier digits (the prefix) and the rank among the values that have them, two int64 numbers for each round, so that nothing
waits for the CPU between rounds.
"""

import triton
import triton.language as tl

MOST_BINS = tl.constexpr(4096)  # looked at together


@triton.jit
def ordered_keys(bits, BITS: tl.constexpr):
    """Unsigned integers in the order of the floats with these bits; -0 and 0 have the same."""
    SIGN: tl.constexpr = 1 << (BITS - 1)
    LARGEST: tl.constexpr = (1 << BITS) - 1
    bits = tl.where(bits == SIGN, 0, bits)
    return tl.where(bits >= SIGN, LARGEST - bits, bits + SIGN)


@triton.jit
def locate(counts, rank, BINS: tl.constexpr, COPIES: tl.constexpr):
    """The digit of the value with this rank, the largest being 1; how many values have larger digits; how many have it.

    The digit is -1 if there are fewer values, and the largest of all digits if the rank is 0.
    """
    CHUNK: tl.constexpr = BINS if BINS < MOST_BINS else MOST_BINS
    places = tl.arange(0, CHUNK)
    digit = tl.full([], -1, tl.int32)
    above = tl.full([], 0, tl.int64)
    equal = tl.full([], 0, tl.int64)
    earlier = tl.full([], 0, tl.int64)
    for chunk in range(BINS // CHUNK):
        first = BINS - (chunk + 1) * CHUNK
        here = tl.zeros([CHUNK], tl.int64)
        for copy in range(COPIES):
            here += tl.load(counts + copy * BINS + first + places)
        total = tl.sum(here, 0)
        through = earlier + total - tl.cumsum(here, 0) + here
        place = tl.max(tl.where(through >= rank, places, -1), 0)
        found = (place >= 0) & (digit < 0)
        above = tl.where(found, earlier + tl.sum(tl.where(places > place, here, 0), 0), above)
        equal = tl.where(found, tl.sum(tl.where(places == place, here, 0), 0), equal)
        digit = tl.where(found, first + place, digit)
        earlier += total
    return digit, above, equal


@triton.jit
def refined(state, counts, ROUND: tl.constexpr, DIGIT: tl.constexpr, COPIES: tl.constexpr):
    """The prefix and the rank after the digit that round ``ROUND - 1`` counted; kept in the state for the round after this."""
    prefix = tl.load(state + 2 * (ROUND - 1))
    rank = tl.load(state + 2 * (ROUND - 1) + 1)
    digit, above, _ = locate(counts, rank, 1 << DIGIT, COPIES)
    prefix = (prefix << DIGIT) | digit
    rank -= above
    if tl.program_id(0) == 0:
        tl.store(state + 2 * ROUND, prefix)
        tl.store(state + 2 * ROUND + 1, rank)
    return prefix, rank


@triton.jit
def add_digits(counts, digits, matching, BINS: tl.constexpr, COPIES: tl.constexpr):
    """Count the digits of the matching values. The smallest of the block is added once: often it is shared by many."""
    counts += (tl.program_id(0) % COPIES) * BINS
    smallest = tl.min(tl.where(matching, digits, BINS), 0)
    if smallest < BINS:
        shared = tl.sum((matching & (digits == smallest)).to(tl.int32), 0)
        tl.atomic_add(counts + smallest, shared.to(tl.int64), sem="relaxed")
        others = matching & (digits != smallest)
        tl.atomic_add(counts + digits, tl.full(digits.shape, 1, tl.int64), mask=others, sem="relaxed")


@triton.jit
def count_first_digit(values, entries, repeats, counts, BITS: tl.constexpr, DIGIT: tl.constexpr, BLOCK: tl.constexpr):
    """The first round: every value counts, and most have one of a few digits, so each program counts for itself."""
    first = tl.program_id(0).to(tl.int64) * BLOCK * repeats
    totals = tl.zeros([1 << DIGIT], tl.int32)
    for block in range(repeats):
        places = first + block * BLOCK + tl.arange(0, BLOCK)
        keys = _keys(values, places, entries, BITS)
        totals += tl.histogram((keys >> (BITS - DIGIT)).to(tl.int32), 1 << DIGIT, mask=places < entries)
    bins = tl.arange(0, 1 << DIGIT)
    tl.atomic_add(counts + bins, totals.to(tl.int64), mask=totals > 0, sem="relaxed")


@triton.jit
def count_digit(
    values,
    entries,
    repeats,
    state,
    earlier,
    counts,
    below,
    BITS: tl.constexpr,
    ROUND: tl.constexpr,
    SHIFT: tl.constexpr,
    DIGIT: tl.constexpr,
    EARLIER_DIGIT: tl.constexpr,
    EARLIER_COPIES: tl.constexpr,
    COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A further round; the last one also finds the largest key that is below all keys with the prefix."""
    BINS: tl.constexpr = 1 << DIGIT
    prefix = tl.full([], 0, tl.int64)
    if ROUND > 0:
        prefix, _ = refined(state, earlier, ROUND, EARLIER_DIGIT, EARLIER_COPIES)
    first = tl.program_id(0).to(tl.int64) * BLOCK * repeats
    next_lower = tl.full([], -(1 << 63), tl.int64)
    for block in range(repeats):
        places = first + block * BLOCK + tl.arange(0, BLOCK)
        keys = _keys(values, places, entries, BITS)
        matching = places < entries
        if ROUND > 0:
            leading = (keys >> (SHIFT + DIGIT)).to(tl.int64)
            if SHIFT == 0:
                lower = matching & (leading < prefix)
                next_lower = tl.maximum(next_lower, tl.max(tl.where(lower, _signed(keys, BITS), -(1 << 63)), 0))
            matching = matching & (leading == prefix)
        add_digits(counts, ((keys >> SHIFT) & (BINS - 1)).to(tl.int32), matching, BINS, COPIES)
    if ROUND > 0 and SHIFT == 0:
        tl.atomic_max(below, next_lower, sem="relaxed")


@triton.jit
def read_ranks(state, counts, below, results, ROUND: tl.constexpr, DIGIT: tl.constexpr, COPIES: tl.constexpr):
    """The keys of the value sought and of the next smaller rank, how many values are above the first, and how many equal it.

    Results: the prefix of both; the last digit of the first; that of the second, or -1 if its key is ``below``; ``below``;
    how many values are above, among those with the prefix; how many are equal; the rank among those with the prefix.
    """
    prefix = tl.load(state + 2 * ROUND)
    rank = tl.load(state + 2 * ROUND + 1)
    digit, above, equal = locate(counts, rank, 1 << DIGIT, COPIES)
    following, _, _ = locate(counts, rank + 1, 1 << DIGIT, COPIES)
    tl.store(results, prefix)
    tl.store(results + 1, digit.to(tl.int64))
    tl.store(results + 2, following.to(tl.int64))
    tl.store(results + 3, tl.load(below))
    tl.store(results + 4, above)
    tl.store(results + 5, equal)
    tl.store(results + 6, rank)


@triton.jit
def _keys(values, places, entries, BITS: tl.constexpr):
    loaded = tl.load(values + places, mask=places < entries, other=0.0)
    if BITS == 16:
        bits = loaded.to(tl.uint16, bitcast=True).to(tl.uint32)
    elif BITS == 32:
        bits = loaded.to(tl.uint32, bitcast=True)
    else:
        bits = loaded.to(tl.uint64, bitcast=True)
    return ordered_keys(bits, BITS)


@triton.jit
def _signed(keys, BITS: tl.constexpr):
    """The keys as int64, in the same order; those of 64 bits less 2^63."""
    return (keys ^ (1 << 63)).to(tl.int64, bitcast=True) if BITS == 64 else keys.to(tl.int64)
