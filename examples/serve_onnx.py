"""Serve a model that ``cgmcr2 export --to onnx`` wrote; needs onnxruntime, Pillow and NumPy only.

python serve_onnx.py deploy/model.onnx 8000
curl --data-binary @photo.jpg http://localhost:8000
"""

import io
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=onnxruntime.get_available_providers())
model = json.loads(session.get_modelmeta().custom_metadata_map["cgmcr2"])  # the content of model.json
size, crop = model["preprocessing"]["resize"], model["preprocessing"]["crop"]
resample = Image.Resampling[model["preprocessing"]["resample"].upper()]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        image = Image.open(io.BytesIO(self.rfile.read(int(self.headers["Content-Length"]))))
        image.draft("RGB", (size, size))  # decodes large JPEG files at reduced size
        image = ImageOps.exif_transpose(image).convert("RGB")
        width, height = (size * side // min(image.size) for side in image.size)  # shorter side to `size`
        left, top = (width - crop) // 2, (height - crop) // 2
        image = image.resize((width, height), resample).crop((left, top, left + crop, top + crop))
        (cluster,), (p,) = session.run(["cluster", "probabilities"], {"images": np.asarray(image)[None]})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"cluster": model["names"][cluster], "confidence": float(p[cluster])}).encode())


HTTPServer(("localhost", int(sys.argv[2])), Handler).serve_forever()
