"""What the garden of seed 0 has always looked like.

A changed OBSERVATIONS means that other plants are drawn: every number ever published about the garden is void, and only a new
major version may do that. A changed SPECIMENS or QUADRATS means that the same plants are painted differently: then DRAWING must
be raised in ``shortlist/data/flora/cache.py`` and here, or old files would be taken for new pictures.
``python -m tests.data.flora.golden`` prints the new hashes.
"""

import hashlib

from shortlist.data.flora import Flora

DRAWING = 1
OBSERVATIONS = "24bf020c48ab514b069f51dad7484afc7d55ea0fff32121444af597252fce626"
SPECIMENS = "727b67c454cda2606c2c7e51ae75fdae499e41a0847ab90ffb159ee9c851c426"
QUADRATS = "bebbf70705df1bad4d9121e3a8f4c3b87dde314da2190449fd574edad7a3ef26"


def digest(*tensors):
    """SHA-256 of the numbers, in the same order of bytes on every machine."""
    found = hashlib.sha256()
    for tensor in tensors:
        array = tensor.numpy()
        found.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


def observations():
    return digest(*Flora(seed=0).observations(1000, seed=0))


def specimens():
    return digest(Flora(seed=0).specimens(64, seed=0, size=32)[0])


def quadrats():
    return digest(Flora(seed=0).quadrats(16, seed=0)[0])


if __name__ == "__main__":
    print(f'OBSERVATIONS = "{observations()}"\nSPECIMENS = "{specimens()}"\nQUADRATS = "{quadrats()}"')
