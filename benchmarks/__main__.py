"""``python -m benchmarks [NAME …]``: run them, then write docs/benchmarks.md from the results.

``--device cuda`` without names runs those that need a GPU.
"""

import sys

from benchmarks import (
    big_file,
    capacity,
    cifar_table,
    claims_page,
    classifying,
    cluster_overhead,
    conformal,
    decoding,
    epoch_time,
    flora,
    flora_limit,
    flora_table,
    gpu_kernels,
    gpu_losses,
    gpu_page,
    gradient_variance,
    imports,
    linear_losses,
    links_table,
    loss_levels,
    loss_table,
    losses,
    merging,
    metrics,
    open_set_table,
    page,
    peers,
    prediction,
    query_kinds,
    retrieval_map,
    retrieval_table,
    scaling,
    searching,
    serving,
    shifts,
    situations,
    size_heads,
    sizes,
    sizes_table,
    small_groups,
    thresholds,
    training_loop,
    transforms,
    votes,
    watches,
)

BENCHMARKS = {
    "thresholds": thresholds,
    "merging": merging,
    "prediction": prediction,
    "conformal": conformal,
    "peers": peers,
    "metrics": metrics,
    "scaling": scaling,
    "losses": losses,
    "gradient_variance": gradient_variance,
    "imports": imports,
    "big_file": big_file,
    "flora": flora,
    "decoding": decoding,
    "transforms": transforms,
    "votes": votes,
    "retrieval_map": retrieval_map,
    "loss_levels": loss_levels,
    "sizes": sizes,
    "situations": situations,
    "small_groups": small_groups,
    "shifts": shifts,
    "size_heads": size_heads,
    "watches": watches,
}
LARGE = {
    "query_kinds": query_kinds,
    "searching": searching,  # 10 GB of temporary files
    "serving": serving,  # three minutes of load
    "cluster_overhead": cluster_overhead,  # these two start Ray
    "capacity": capacity,
}
ON_A_GPU = {
    "flora_limit": flora_limit,
    "training_loop": training_loop,
    "classifying": classifying,
    "gpu_losses": gpu_losses,
    "gpu_kernels": gpu_kernels,
    "linear_losses": linear_losses,
    "epoch_time": epoch_time,
}
WITH_A_PATH = (
    "cifar100",
    "gradient_sparsity",
    "label_links",
    "links",
    "open_set",
    "retrieval_methods",
)  # need data that are not here

names = sys.argv[1:] or [*BENCHMARKS, "page"]
if names[:2] == ["--device", "cuda"]:
    names = names[2:] or [*ON_A_GPU, "page"]
if any(name.startswith("-") for name in names):
    sys.exit(f"usage: python -m benchmarks [--device cuda] [{' | '.join([*BENCHMARKS, *ON_A_GPU, *LARGE, 'page'])}] …")
for name in names:
    if name == "page":
        page.write()
        gpu_page.draw()
        loss_table.write()
        flora_table.write()
        cifar_table.write()
        open_set_table.write()
        retrieval_table.write()
        claims_page.write()
        sizes_table.write()
        situations.write()
        small_groups.write()
        shifts.write()
        size_heads.write()
        watches.write()
        links_table.write()
        capacity.write()
        cluster_overhead.write()
    elif name in BENCHMARKS | ON_A_GPU | LARGE:
        (BENCHMARKS | ON_A_GPU | LARGE)[name].run()
    elif name in WITH_A_PATH:
        sys.exit(f"{name} needs the folder of its data: python -m benchmarks.{name} PATH")
    else:
        sys.exit(f"expected some of {', '.join([*BENCHMARKS, *ON_A_GPU, *LARGE, *WITH_A_PATH, 'page'])}, got {name!r}")
