"""Data whose best possible classifier is known.

Flora draws flowers from a known distribution, so the posterior of every picture is known exactly, and with it the best accuracy
that any classifier can reach with k labels, or with k labels on average.
"""

from shortlist.data import Flora

garden = Flora(species=30, genera=6, seed=0)
images, labels, posterior = garden.specimens(500, seed=1, size=32)
true = posterior.gather(1, labels[:, None]).mean()
print(f"{len(images)} pictures of {images.shape[-1]} pixels; the true species has posterior probability {true:.2f} on average")

for row in garden.limits([1, 2, 3, 5]).rows():
    print({name: round(value, 4) for name, value in row.items()})
