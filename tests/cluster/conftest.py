"""One cluster of four logical CPUs for all tests that need one: two for the workers that they share, two for commands."""

import os

import pytest

from tests.cluster.stand_in import StandIn

# Ray ends workers when the machine has little memory left, whoever takes it: here other tests and programs may.
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")


@pytest.fixture(scope="session")
def ray():
    from shortlist.cluster import session

    with session(cpus=4) as found:
        yield found


@pytest.fixture(scope="session")
def workers(ray):
    from shortlist.cluster import Pool

    found = Pool(ray, 2)
    yield found
    found.close()


@pytest.fixture(params=["stand-in", pytest.param("ray", marks=pytest.mark.ray)])
def some(request):
    """Workers of a stand-in, of which many die; or those of Ray."""
    from shortlist.cluster import Pool

    return Pool(StandIn(deaths=0.05)) if request.param == "stand-in" else request.getfixturevalue("workers")
