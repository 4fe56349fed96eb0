"""An exported classifier of pictures, without torch.

The ONNX file reads pixels; what turns a photograph into these pixels is the function here, which needs Pillow and numpy alone
and gives exactly the pixels that the library reads.
"""

import json
import tempfile

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

import shortlist as sl


def pixels(path, size, fit="crop"):
    """uint8 (1, 3, size, size): upright, on white where it is transparent, the central square or its central window."""
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    side = -(-size * 8 // 7) if fit == "center" else size
    square = ImageOps.fit(picture.convert("RGB"), (side, side), Image.Resampling.BILINEAR)
    start = (side - size) // 2
    window = square.crop((start, start, start + size, start + size))
    return np.asarray(window).transpose(2, 0, 1)[None]


with tempfile.TemporaryDirectory() as folder:
    data = "flora:species=6,genera=2,train=200,val=50,test=50,size=64"
    classifier = sl.train(data, folder=f"{folder}/run", backbone="plain-8", size=32, epochs=1, report=False).classifier
    classifier.export_onnx(f"{folder}/plants.onnx")
    photograph = f"{folder}/photograph.png"
    Image.effect_noise((300, 200), 90).convert("RGB").save(photograph)
    session = onnxruntime.InferenceSession(f"{folder}/plants.onnx")
    inputs = json.loads(session.get_modelmeta().custom_metadata_map["shortlist.inputs"])
    found = session.run(["probs"], {"images": pixels(photograph, inputs["size"], inputs["fit"])})[0]
    print("largest difference:", f"{np.abs(found - classifier.predict(photograph).probabilities.numpy()).max():.0e}")
