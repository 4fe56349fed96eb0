"""Superclass noise: the law of the noisy label given the true one, entry by entry, in float64."""

import numpy as np


def transition(superclass_of, p):
    """P(noisy = j | true = i)."""
    classes = len(superclass_of)
    law = np.zeros((classes, classes))
    for i in range(classes):
        family = [j for j in range(classes) if superclass_of[j] == superclass_of[i]]
        for j in family:
            law[i, j] += p / len(family)
        law[i, i] += 1 - p
    return law


def noisy_posterior(posterior, superclass_of, p):
    law = transition(superclass_of, p)
    noisy = np.zeros(posterior.shape)
    for row in range(len(posterior)):
        for i in range(len(superclass_of)):
            for j in range(len(superclass_of)):
                noisy[row, j] += posterior[row, i] * law[i, j]
    return noisy
