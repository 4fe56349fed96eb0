"""Accuracies of sets under known class probabilities, and shares of classes, as loops over rows and labels."""


def expected_accuracy(sets, truth):
    """Mean over rows of the probability that the set holds the label."""
    return sum(truth[i][j] for i in range(len(sets)) for j in range(len(sets[0])) if sets[i][j]) / len(sets)


def expected_recall(sets, truth, j):
    """The probability that the set holds the label, given that the label is j."""
    mass = sum(row[j] for row in truth)
    return sum(truth[i][j] for i in range(len(sets)) if sets[i][j]) / mass
