"""The block, or its LayerNorm alone, as an ONNX model, as an exporter would
write it."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def onnx_model(weights, order):
    """Serialized; the number of rows is left open."""
    initial = {"scale": weights.scale, "offset": weights.offset,
               "w1": weights.w1, "b1": weights.b1,
               "w2": weights.w2, "b2": weights.b2}

    def norm(name, result):
        return helper.make_node("LayerNormalization",
                                [name, "scale", "offset"], [result], axis=-1,
                                epsilon=weights.epsilon)

    def block(pre):
        return [
            *([norm("x", "z")] if pre else []),
            helper.make_node("MatMul", ["z" if pre else "x", "w1"], ["m1"]),
            helper.make_node("Add", ["m1", "b1"], ["a1"]),
            helper.make_node("Relu", ["a1"], ["h"]),
            helper.make_node("MatMul", ["h", "w2"], ["m2"]),
            helper.make_node("Add", ["m2", "b2"], ["a2"]),
            helper.make_node("Add", ["x", "a2"], ["y" if pre else "sum"]),
            *([] if pre else [norm("sum", "y")]),
        ]

    nodes = [norm("x", "y")] if order == "norm" else block(order == "pre")
    read = {name for node in nodes for name in node.input}

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT,
                                             ["rows", weights.d_model])

    graph = helper.make_graph(
        nodes, "block", [value("x")], [value("y")],
        [numpy_helper.from_array(np.ascontiguousarray(array), name)
         for name, array in initial.items() if name in read])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8).SerializeToString()
