"""A classifier as one ONNX file.

The file contains the preparation of inputs, the network, the link and the rule: raw inputs in, sets out, without torch.
"""

import tempfile

import numpy as np
import onnxruntime
import torch

import shortlist as sl

torch.manual_seed(0)
inputs = torch.randn(900, 4)
labels = (inputs @ torch.randn(4, 5) + 0.5 * torch.randn(900, 5)).argmax(dim=1)

with tempfile.TemporaryDirectory() as folder:
    run = sl.train(
        (inputs, labels),
        backbone="mlp-32",
        method="cross-entropy",
        rule="lac:0.1",
        epochs=3,
        folder=f"{folder}/run",
    )
    run.classifier.export_onnx(f"{folder}/model.onnx")
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
    rows = inputs[:4].numpy()
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {"features": rows}), strict=True))

print({name: value.shape for name, value in outputs.items()})
assert np.array_equal(outputs["sets"], run.classifier.predict(rows).sets.numpy())
