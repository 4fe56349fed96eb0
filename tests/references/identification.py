"""Several photographs of one individual, typed from the definition."""

import math


def combined_exclusive(rows):
    """exp of the mean of log p, divided by its sum, for rows of probabilities of which one label is true."""
    classes = range(len(rows[0]))
    geometric = [math.exp(sum(math.log(row[place]) for row in rows) / len(rows)) for place in classes]
    return [value / sum(geometric) for value in geometric]


def combined_each(rows):
    """The same for each label on its own: present against absent."""
    found = []
    for place in range(len(rows[0])):
        present = math.exp(sum(math.log(row[place]) for row in rows) / len(rows))
        absent = math.exp(sum(math.log(1 - row[place]) for row in rows) / len(rows))
        found.append(present / (present + absent))
    return found


def nearest(rows, wanted, most):
    """The places of the rows with the largest inner product with ``wanted``, ties by lower place."""
    products = [sum(a * b for a, b in zip(row, wanted, strict=True)) for row in rows]
    return sorted(range(len(rows)), key=lambda place: (-products[place], place))[:most]
