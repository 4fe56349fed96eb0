"""Operators: what an ordinary call hands to the function that launches kernels."""

import torch

from shortlist.kernels.registry import operator

SEEN = []


@operator("tried_in_tests(Tensor scores, int k, float scale) -> Tensor", lambda scores, k, scale: torch.empty_like(scores))
def tried(scores, k, scale):
    SEEN.append((k, scale))
    return scores * scale


def test_numbers_get_the_types_of_the_schema_without_the_registry_too():
    SEEN.clear()
    scores = torch.ones(2)
    for call in (tried, torch.ops.shortlist.tried_in_tests):
        assert torch.equal(call(scores, 3, 2), 2 * scores)
    assert [(type(k), type(scale)) for k, scale in SEEN] == [(int, float)] * 2
