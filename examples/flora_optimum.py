"""Data whose best possible classifier is known.

Flora draws pictures of flowers from a known distribution, so the probability of each species given a picture is known exactly.
So is the best coverage that any classifier can reach, with k labels for every picture or with k labels on average.
"""

from shortlist.data import Flora

garden = Flora(species=30, genera=6, seed=0)
images, labels, posterior = garden.specimens(500, seed=1, size=32)
print(f"{len(images)} pictures of {images.shape[-1]} × {images.shape[-1]} pixels")
print(f"the most probable species is right for {(posterior.argmax(dim=1) == labels).float().mean():.1%} of them")

print("best possible coverage")
for limit in garden.limits([1, 2, 3, 5]).rows():
    print(f"k = {limit['k']}: {limit['top_k']:.1%} with k labels, {limit['average_k']:.1%} with k labels on average")
