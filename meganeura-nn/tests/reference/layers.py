"""Writes layers.json: attention and transformer layers of PyTorch, forward and every gradient of Σ y · r, in float64.

Grouped heads, windows and rotary positions are not in PyTorch 1.13; they are written out here from their definitions (arXiv 2305.13245,
2104.09864). Numbers that go in are multiples of 1/64. Run with PyTorch 1.13 or newer: python3 layers.py
"""
import json
import math
import pathlib
import torch

torch.manual_seed(5)
BATCH, LENGTH, WIDTH = 2, 5, 8


def draw(*shape):
    return torch.randint(-64, 65, shape).double() / 64


def numbers(tensor):
    return {"shape": list(tensor.shape), "data": [float(f"{value:.10g}") for value in tensor.detach().flatten().tolist()]}


def case(function, inputs, parameters):
    """The result of function(inputs, parameters), a random cotangent, and the gradients of all."""
    leaves = {name: value.clone().requires_grad_() for name, value in {**inputs, **parameters}.items()}
    y = function({name: leaves[name] for name in inputs}, {name: leaves[name] for name in parameters})
    r = draw(*y.shape)
    gradients = torch.autograd.grad((y * r).sum(), list(leaves.values()))
    return {
        "inputs": {name: numbers(value) for name, value in inputs.items()},
        "parameters": {name: numbers(value) for name, value in parameters.items()},
        "r": numbers(r),
        "y": numbers(y),
        "gradients": {name: numbers(value) for name, value in zip(leaves, gradients)},
    }


def of_module(module, inputs, run):
    """A module of PyTorch with drawn parameters under its own names."""
    module = module.double()
    parameters = {name: draw(*value.shape) for name, value in module.named_parameters()}
    call = torch.nn.utils.stateless.functional_call
    holder = torch.nn.Module()
    holder.inner = module
    holder.forward = lambda inputs: run(module, inputs)
    named = lambda values: {f"inner.{name}": value for name, value in values.items()}
    return case(lambda inputs, parameters: call(holder, named(parameters), (inputs,)), inputs, parameters)


def later(queries, keys):
    """True where a key is later than its query."""
    return torch.ones(queries, keys).triu(1 + keys - queries).bool()


def attend(module, inputs, **options):
    source = inputs.get("source", inputs["x"])
    return module(inputs["x"], source, source, need_weights=False, **options)[0]


def rope(x, base=10000.0):
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2]).double(), base ** (-torch.arange(half).double() / half))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def grouped(inputs, parameters, heads=4, kv_heads=2, width=4, causal=True, window=3, turn=True):
    x = inputs["x"]
    split = lambda name, count: (x @ parameters[f"{name}.weight"].T).reshape(BATCH, LENGTH, count, width).transpose(1, 2)
    q, k, v = split("q_proj", heads), split("k_proj", kv_heads), split("v_proj", kv_heads)
    if turn:
        q, k = rope(q), rope(k)
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(width)
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    hidden = (distance.abs() >= window) | ((distance < 0) & causal)
    y = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
    return y.transpose(1, 2).reshape(BATCH, LENGTH, heads * width) @ parameters["out_proj.weight"].T


def main():
    x, source = draw(BATCH, LENGTH, WIDTH), draw(BATCH, 7, WIDTH)
    attention = lambda **options: torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True, **options)
    layer = lambda **options: torch.nn.TransformerEncoderLayer(WIDTH, 2, 6, dropout=0.0, batch_first=True, **options)
    cases = {
        "self": of_module(attention(), {"x": x}, attend),
        "causal": of_module(attention(), {"x": x}, lambda m, i: attend(m, i, attn_mask=later(LENGTH, LENGTH))),
        "cross": of_module(attention(bias=False), {"x": x, "source": source}, attend),
        "grouped": case(
            grouped,
            {"x": x},
            {
                "q_proj.weight": draw(16, WIDTH),
                "k_proj.weight": draw(8, WIDTH),
                "v_proj.weight": draw(8, WIDTH),
                "out_proj.weight": draw(WIDTH, 16),
            },
        ),
        "layer": of_module(layer(), {"x": x}, lambda m, i: m(i["x"])),
        "layer, norm first": of_module(
            layer(norm_first=True, activation="gelu"), {"x": x}, lambda m, i: m(i["x"], src_mask=later(LENGTH, LENGTH))
        ),
    }
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps({"pytorch": torch.__version__, "cases": cases}, separators=(",", ":")) + "\n")


main()
