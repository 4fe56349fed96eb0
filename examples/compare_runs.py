"""Two training runs side by side.

The same data and two methods. A run keeps its predictions on disk; evaluations of several runs go into one table or one report.
"""

import tempfile

import shortlist as sl

data = "flora:species=12,genera=4,train=400,val=200,test=200,size=16"

with tempfile.TemporaryDirectory() as folder:
    runs = {
        method: sl.train(data, method=method, k=3, folder=f"{folder}/{method}", backbone="plain-8-16", epochs=2)
        for method in ("cross-entropy", "average-k")
    }
    evaluations = [run.evaluate() for run in runs.values()]
    print(sl.report.headline(evaluations).transposed().markdown())
    sl.report.write_report(evaluations, f"{folder}/comparison.html", title="Two methods")
