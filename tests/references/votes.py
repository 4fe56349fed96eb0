"""Labels from votes as loops over dictionaries: weights as decimals of nine places, sums as fractions, EM label by label."""

import math
from collections import defaultdict
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 50


def last_votes(rows):
    """{(user, item): label} by the last row of each, and {item: author} by any row."""
    votes, authors = {}, {}
    for user, item, label, author in rows:
        votes[user, item] = label
        if author:
            authors[item] = user
    return votes, authors


def weight(n, b0):
    """``n^0.5 - n^0.2 + b0`` to nine decimals."""
    grown = Decimal(n).sqrt() - (Decimal(n) ** Decimal("0.2") if n else Decimal(0))
    return Fraction(grown.quantize(Decimal("1e-9"))) + Fraction(str(b0))


def decide(votes, weights, items):
    """{item: (label, support, all support, tied)}, None where nobody voted; ties to the lower label."""
    sums = {item: defaultdict(Fraction) for item in items}
    for (user, item), label in votes.items():
        sums[item][label] += weights[user]
    found = {}
    for item in items:
        if not sums[item]:
            found[item] = None
            continue
        most = max(sums[item].values())
        winners = sorted(label for label, total in sums[item].items() if total == most)
        found[item] = (winners[0], most, sum(sums[item].values()), len(winners) > 1)
    return found


def known(votes, authors, state):
    """n_u: different labels proposed, and different valid labels of what the user authored."""
    n = {}
    for user in {user for user, _ in votes}:
        proposed = {label for (other, _), label in votes.items() if other == user}
        observed = {state[item][0] for item, author in authors.items() if author == user and state[item][1]}
        n[user] = len(proposed) + len(observed)
    return n


def adaptive_majority(rows, b0, theta, items=None, most_rounds=100):
    """Round after round until a state comes back: the one before (settled) or an earlier one (a cycle)."""
    votes, authors = last_votes(rows)
    items = sorted({item for _, item in votes}) if items is None else items
    states = [dict.fromkeys(items, (None, False))]
    before, history, converged, cycle = None, [], False, 0
    while len(history) < most_rounds and not converged and not cycle:
        weights = {user: weight(n, b0) for user, n in known(votes, authors, states[-1]).items()}
        found = decide(votes, weights, items)
        state = {item: (None, False) if won is None else (won[0], won[1] > Fraction(str(theta))) for item, won in found.items()}
        relabelled = sum(state[item][0] != states[-1][item][0] for item in items)
        revalued = sum(state[item][1] != states[-1][item][1] for item in items)
        reweighted = sum(weights[user] != before[user] for user in weights) if before else 0
        history.append((relabelled, revalued, reweighted))
        converged = state == states[-1]
        if not converged and state in states:
            cycle = len(states) - states.index(state)
        states.append(state)
        before = weights
    return {
        "found": found,
        "state": states[-1],
        "weights": weights,
        "history": history,
        "rounds": len(history),
        "converged": converged,
        "cycle": cycle,
    }


def shares(votes, labels):
    """{item: {label: share of its votes}}, where EM starts."""
    counts = defaultdict(lambda: dict.fromkeys(labels, 0.0))
    for (_, item), label in votes.items():
        counts[item][label] += 1.0
    return {item: {k: c / sum(of.values()) for k, c in of.items()} for item, of in counts.items()}


def class_shares(posterior, labels, smoothing):
    counts = {k: sum(q[k] for q in posterior.values()) + smoothing for k in labels}
    return {k: count / sum(counts.values()) for k, count in counts.items()}


def em_round(votes, posterior, labels, smoothing, chances):
    """One round of EM: ``chances(posterior)`` is ``chance(user, said, truth)``; posterior, log-likelihood, classes, chance."""
    chance, classes = chances(votes, posterior, labels, smoothing), class_shares(posterior, labels, smoothing)
    after, likelihood = {}, 0.0
    for item in posterior:
        joint = {}
        for k in labels:
            joint[k] = math.log(classes[k]) if classes[k] else -math.inf
            for (user, other), said in votes.items():
                if other == item:
                    joint[k] += math.log(chance[user, said, k]) if chance[user, said, k] else -math.inf
        top = max(joint.values())
        total = top + math.log(sum(math.exp(value - top) for value in joint.values()))
        after[item] = {k: math.exp(value - total) for k, value in joint.items()}
        likelihood += total
    return after, likelihood, classes, chance


def one_coin_chances(votes, posterior, labels, smoothing):
    chance, others = {}, max(1, len(labels) - 1)
    for user in {user for user, _ in votes}:
        own = [(item, label) for (other, item), label in votes.items() if other == user]
        a = (sum(posterior[item][label] for item, label in own) + smoothing) / (len(own) + 2 * smoothing)
        for said in labels:
            for truth in labels:
                chance[user, said, truth] = a if said == truth else (1 - a) / others
    return chance


def full_chances(votes, posterior, labels, smoothing):
    chance, others = {}, max(1, len(labels) - 1)
    for user in {user for user, _ in votes}:
        own = [(item, label) for (other, item), label in votes.items() if other == user]
        for truth in labels:
            counts = {said: smoothing if said == truth else smoothing / others for said in labels}
            for item, said in own:
                counts[said] += posterior[item][truth]
            total = sum(counts.values())
            for said in labels:
                chance[user, said, truth] = counts[said] / total if total else 1 / len(labels)
    return chance


def dawid_skene(rows, labels, smoothing, rounds, chances):
    """So many rounds of EM; the posterior, the log-likelihood of each round, and the last classes and chances."""
    votes, _ = last_votes(rows)
    posterior, likelihoods = shares(votes, labels), []
    for _ in range(rounds):
        posterior, likelihood, classes, chance = em_round(votes, posterior, labels, smoothing, chances)
        likelihoods.append(likelihood)
    return posterior, likelihoods, classes, chance
