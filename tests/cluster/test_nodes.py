"""Several machines, as Ray's own utilities make them of one: all do their share, and one that is lost changes nothing."""

import pytest

from tests import warm

# Ray is connected once in a process, so this cluster has a process of its own.
PROGRAM = """
import os, threading, time
import torch
os.environ["RAY_memory_monitor_refresh_ms"] = "0"
from shortlist.cluster.connecting import quiet, ray_module
from shortlist.cluster import Pool, fit, measure, session
from shortlist.evaluation import measure as measured_here
from shortlist.predictions import Predictions
from shortlist.sets import average_k, lac

ray = ray_module("ray")
with quiet():
    from ray.cluster_utils import Cluster
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 2**27})
    nodes = [made.add_node(num_cpus=2, object_store_memory=2**27) for _ in range(2)]

generator = torch.Generator().manual_seed(0)
scores = torch.randn(3000, 300, generator=generator)
rows = Predictions(scores, scores.argmax(1), link="softmax")


def where():
    return ray.get_runtime_context().get_node_id()


class Slow:
    def __call__(self, number):
        time.sleep(0.05)
        return number, where()


try:
    with session(made.address):
        pool = Pool(ray, 4)
        answers = dict(pool.each(Slow(), range(40)))
        assert sorted(number for number, _ in answers.values()) == list(range(40))
        print("machines at work", len({place for _, place in answers.values()}))

        lost = threading.Timer(0.4, made.remove_node, (nodes[1],), {"allow_graceful": False})
        lost.start()
        answers = dict(pool.each(Slow(), range(100)))
        lost.join()
        assert sorted(number for number, _ in answers.values()) == list(range(100))
        print("machines that are left", len({place for _, (_, place) in pool.each(Slow(), range(40))}))

        for rule in (average_k(5), lac(0.1)):
            found = fit(pool, rule, rows)
            assert torch.equal(found.threshold, type(rule).fit(rule, rows).threshold)
        assert repr(measure(pool, rows, rule).numbers()) == repr(measured_here(rows, rule).numbers())
        pool.close()
finally:
    with quiet():
        made.shutdown()
print("done")
"""


@pytest.mark.ray
def test_a_machine_that_is_lost_changes_nothing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("n")
    found = warm.run(PROGRAM, environment={"RAY_TMPDIR": str(folder)})
    assert found.returncode == 0, found.stderr
    said = [line for line in found.stdout.splitlines() if line.startswith(("machines", "done"))]  # among what Ray says
    assert said == ["machines at work 2", "machines that are left 1", "done"]
