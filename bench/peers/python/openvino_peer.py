"""OpenVINO: the ONNX model compiled for its number of rows, in float32."""
import io

import numpy as np
import openvino

from onnx_model import onnx_model
from worker import Library


def create(threads):
    core = openvino.Core()
    models = {}  # {(weights, order): bytes}, one at a time

    def make(weights, order, rows, x):
        key = (weights, order)
        if key not in models:
            models.clear()
            models[key] = onnx_model(weights, order)
        model = core.read_model(io.BytesIO(models[key]))
        model.reshape([rows, weights.d_model])
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,
        })
        request = compiled.create_infer_request()
        request.set_input_tensor(openvino.Tensor(np.array(x)))
        return request.infer, lambda: request.get_output_tensor().data

    return Library("openvino", openvino.__version__.split("-")[0], "",
                   {"compiled": make})
