"""Evaluate and plot, in one call each.

`evaluate` takes probabilities, labels and a fitted rule. The result prints as a table, plots in a notebook or with
`plt.show()`, and `shortlist.report.write_report(evaluation, "report.html")` writes the full page.
"""

import numpy as np

import shortlist as sl

rng = np.random.default_rng(0)
probs = rng.dirichlet(0.4 * np.ones(8), size=2000)
labels = np.array([rng.choice(8, p=row) for row in probs])

rule = sl.sets.average_k(2).fit(probs[:1000])
evaluation = sl.evaluate(probs[1000:], labels[1000:], rule)
print(evaluation)
evaluation.plot()
