"""Sets from probabilities: against torch.topk on the same matrix."""

from benchmarks.data import single_label
from benchmarks.harness import compare
from shortlist.sets import average_k, lac, top_k


def run() -> None:
    for rows, classes in ((31_118, 1_081), (10_000, 100)):
        probs, target = single_label(rows, classes)
        rules = {"average-k:5": average_k(5).fit(probs), "lac:0.1": lac(0.1).fit(probs, target), "top-k:5": top_k(5)}
        contenders = {f"shortlist {name}": (lambda rule=rule, p=probs: rule(p)) for name, rule in rules.items()}
        compare("set-prediction", f"{rows:,} × {classes:,} float32", {**contenders, "torch.topk(5)": lambda p=probs: p.topk(5)})
