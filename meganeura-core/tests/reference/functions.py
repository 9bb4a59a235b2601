"""Writes functions.json: functions of PyTorch, their values and the gradients of Σ y · r, in float64.

Numbers that go in are multiples of 1/64, so that every format holds them, and lie on kinks and ties where these matter.
Attention with grouped heads and windows and RMS norm are not in PyTorch 1.13; they are written out from their
definitions (arXiv 1706.03762, 2305.13245, 1910.07467). Run with PyTorch 1.13 or newer: python3 functions.py
"""
import json
import math
import pathlib
import torch
import torch.nn.functional as F

torch.manual_seed(11)
CASES = {}


def draw(*shape, scale=64):
    return torch.randint(-scale, scale + 1, shape).double() / 64


def numbers(tensor):
    integers = not tensor.is_floating_point()
    data = [int(v) if integers else float(f"{v:.8g}") for v in tensor.detach().flatten().tolist()]
    return {"dtype": "u32" if integers else "f32", "shape": list(tensor.shape), "data": data}


def case(name, function, *operands, wrt=None):
    """A case by its name. `wrt`: the operands that have a gradient, by default all floats."""
    assert name not in CASES, name
    if wrt is None:
        wrt = [at for at, x in enumerate(operands) if x.is_floating_point()]
    leaves = [x.clone().requires_grad_(at in wrt) for at, x in enumerate(operands)]
    y = function(*leaves)
    entry = {"operands": [numbers(x) for x in operands], "y": numbers(y)}
    if y.is_floating_point() and wrt:
        r = draw(*y.shape)
        gradients = torch.autograd.grad((y * r).sum(), [leaves[at] for at in wrt])
        entry["r"] = numbers(r)
        entry["gradients"] = {str(at): numbers(g) for at, g in zip(wrt, gradients)}
    CASES[name] = entry


def activations():
    # Kinks of all of them are among these.
    x = torch.tensor([-30, -6, -3, -1.5, -1, -0.25, 0, 0.25, 1, 1.5, 3, 6, 30]).double()
    for name, function in {
        "relu": F.relu,
        "relu6": F.relu6,
        "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
        "elu": lambda x: F.elu(x, 1.3),
        "selu": F.selu,
        "celu": lambda x: F.celu(x, 0.7),
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "sigmoid": torch.sigmoid,
        "log_sigmoid": F.logsigmoid,
        "softplus": F.softplus,
        "mish": F.mish,
        "tanh": torch.tanh,
        "hardtanh": lambda x: F.hardtanh(x, -1, 1.5),
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "softsign": F.softsign,
        "erf": torch.erf,
        "clamp": lambda x: x.clamp(-1, 1.5),
        "abs": torch.abs,
        "sign": torch.sign,
        "cube": lambda x: x**3,
        "square": lambda x: x**2,
    }.items():
        case(name, function, x)
    case("prelu", F.prelu, draw(2, 3, 5), torch.tensor([0.25, -0.5, 0.0]).double())
    case("swiglu", lambda x, up: F.silu(x) * up, draw(3, 5), draw(3, 5))
    case("geglu", lambda x, up: F.gelu(x) * up, draw(3, 5), draw(3, 5))
    a, b = draw(3, 5, scale=2), draw(3, 5, scale=2)
    case("maximum with ties", torch.maximum, a, b)
    case("minimum with ties", torch.minimum, a, b)
    case("expm1", torch.expm1, draw(7))
    case("log1p", torch.log1p, draw(7) * 0.5)
    case("pow", torch.pow, draw(7).abs() + 0.5, draw(7) * 2)


def rows():
    x = draw(3, 4, 5, scale=192)
    case("softmax", lambda x: x.softmax(1), x)
    case("log_softmax", lambda x: x.log_softmax(2), x)
    case("logsumexp", lambda x: x.logsumexp(2), x)
    case("sum", lambda x: x.sum((0, 2)), x)
    case("mean", lambda x: x.mean(1), x)
    case("var", lambda x: x.var((0, 2), unbiased=True), x)
    case("std", lambda x: x.std(1, unbiased=False), x)
    for p in (1.0, 2.0, 3.0, math.inf):
        case(f"norm {p}", lambda x, p=p: torch.linalg.vector_norm(x, p, dim=2), x)
    case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=1, eps=1e-8), x, draw(3, 4, 5))
    ties = draw(4, 9, scale=3)
    case("max with ties", lambda x: x.amax(1), ties)
    case("argmax with ties", lambda x: x.argmax(1), ties)
    case("argmin with ties", lambda x: x.argmin(1), ties)
    case("cumsum", lambda x: x.cumsum(1), x)
    case("cumprod", lambda x: x.cumprod(2), x)
    # With stable order; PyTorch's topk promises none among equal elements.
    for name, descending in (("ascending", False), ("descending", True)):
        case(f"sort {name} with ties, values", lambda x, d=descending: x.sort(dim=1, descending=d, stable=True)[0], ties)
        case(f"sort {name} with ties, indices", lambda x, d=descending: x.sort(dim=1, descending=d, stable=True)[1], ties)
    case("topk with ties, values", lambda x: x.topk(4, 1)[0], draw(4, 9))
    case("topk of the least, indices", lambda x: x.topk(4, 1, largest=False)[1], draw(4, 9, scale=1000))


def norms():
    x, weight, bias = draw(2, 6, 3, 2), draw(6), draw(6)
    case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5), draw(3, 5), draw(5), draw(5))
    case("layer_norm of 2 dimensions", lambda x: F.layer_norm(x, (3, 2), eps=1e-5), x)
    rms = lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w
    case("rms_norm", rms, draw(3, 5), draw(5))
    case("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5), x, weight, bias)
    case("instance_norm", lambda x: F.instance_norm(x, eps=1e-5), x)
    case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=1e-5), x, weight, bias)

    def statistics(x):
        # A momentum of 1 leaves the batch's own.
        mean, var = torch.zeros(6).double(), torch.ones(6).double()
        F.batch_norm(x, mean, var, training=True, momentum=1.0)
        return torch.stack([mean, var])

    case("statistics of batch_norm", statistics, x, wrt=[])
    case("batch_norm_with", lambda x, m, v: F.batch_norm(x, m, v, eps=1e-5), x, draw(6), draw(6).abs() + 0.5, wrt=[0])


def losses():
    logits, labels, weights = draw(5, 7, scale=192), torch.tensor([3, 0, 6, 2, 2]), draw(7).abs() + 0.25
    loss = lambda **options: lambda x, y, *w: F.cross_entropy(x, y, *w, **options)
    case("cross_entropy", loss(reduction="none"), logits, labels)
    case("cross_entropy, mean", loss(), logits, labels)
    case("cross_entropy, ignored", loss(ignore_index=2), logits, labels)
    case("cross_entropy, ignored, each row", loss(ignore_index=2, reduction="none"), logits, labels)
    case("cross_entropy, weighted", loss(), logits, labels, weights, wrt=[0])
    case("cross_entropy, smoothed", loss(label_smoothing=0.1), logits, labels)
    case("cross_entropy, smoothed, each row", loss(label_smoothing=0.1, reduction="none"), logits, labels)
    case("cross_entropy, smoothed, weighted", loss(label_smoothing=0.1), logits, labels, weights, wrt=[0])
    case("cross_entropy, everything", loss(label_smoothing=0.1, ignore_index=2), logits, labels, weights, wrt=[0])
    probabilities = draw(5, 7).softmax(1)
    probabilities = (probabilities * 64).round() / 64
    case("cross_entropy_of", loss(reduction="none"), logits, probabilities)
    case("cross_entropy_of, smoothed", loss(reduction="none", label_smoothing=0.1), logits, probabilities)
    everything = loss(reduction="none", label_smoothing=0.1)
    case("cross_entropy_of, everything", everything, logits, probabilities, weights, wrt=[0, 1])
    probabilities[:, 1] = 0
    divergence = lambda x, t: F.kl_div(x.log_softmax(1), t, reduction="none").sum(1)
    case("kl_divergence", divergence, logits, probabilities, wrt=[0])
    x, target = draw(3, 5, scale=192), draw(3, 5).abs()
    case("bce_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), x * 4, target)
    case("mean_squared_error", F.mse_loss, x, target)
    # Some differences are 0 and some are exactly at the bend.
    near = target + torch.tensor([0, 0.75, -0.75, 0.5, 2]).double()
    case("l1_loss", lambda x, t: F.l1_loss(x, t, reduction="none"), near, target)
    case("huber_loss", lambda x, t: F.huber_loss(x, t, reduction="none", delta=0.75), near, target)
    case("smooth_l1_loss", lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.75), near, target)


def windows():
    x = draw(1, 1, 5, 7)
    ties = draw(1, 1, 7, 6, scale=4).relu()
    case("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), ties)
    case("max_pool, dilated and partial", lambda x: F.max_pool2d(x, 2, 3, 1, 2, ceil_mode=True), ties)
    case("max_pool of a sequence", lambda x: F.max_pool1d(x, 3), draw(2, 2, 8))
    case("avg_pool", lambda x: F.avg_pool2d(x, 3, 2, 1), x)
    case("avg_pool, without the border", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), x)
    case("avg_pool, partial", lambda x: F.avg_pool2d(x, 2, 2, 0, ceil_mode=True), x)
    case("avg_pool, partial, with a border", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), draw(1, 1, 6, 6))
    case("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x)
    case("adaptive_max_pool", lambda x: F.adaptive_max_pool2d(x, (3, 2)), x)
    for mode in ("reflect", "replicate", "circular"):
        case(f"border {mode}", lambda x, m=mode: F.pad(x, (2, 1, 1, 3), mode=m), x)
    for name, size in (("up", (10, 14)), ("between", (7, 5)), ("down", (2, 3))):
        case(f"nearest {name}", lambda x, s=size: F.interpolate(x, s, mode="nearest"), x)
        for corners in (False, True):
            function = lambda x, s=size, c=corners: F.interpolate(x, s, mode="bilinear", align_corners=c)
            case(f"bilinear {name}, corners {corners}".lower(), function, x)
    case("linear of a sequence", lambda x: F.interpolate(x, 9, mode="linear", align_corners=False), draw(2, 2, 4))


def convolutions():
    x, image = draw(2, 4, 9), draw(2, 4, 6, 5)
    conv = lambda function, **options: lambda x, w, *b: function(x, w, *b, **options)
    case("conv1d", conv(F.conv1d, stride=2, padding=1), x, draw(3, 4, 3))
    case("conv1d, dilated, in groups", conv(F.conv1d, dilation=3, groups=2), x, draw(6, 2, 2))
    case("conv2d", conv(F.conv2d, padding=1), image, draw(3, 4, 3, 3))
    case("conv2d, strided", conv(F.conv2d, stride=(2, 1), padding=(1, 0)), image, draw(3, 4, 3, 2))
    case("conv2d, dilated", conv(F.conv2d, dilation=2, padding=1), image, draw(2, 4, 2, 2))
    case("conv2d, depthwise", conv(F.conv2d, groups=4, padding=1, stride=2), image, draw(8, 1, 3, 3))
    case("conv3d", conv(F.conv3d, padding=1), draw(1, 2, 2, 3, 3), draw(2, 2, 2, 2, 2))
    up = conv(F.conv_transpose1d, stride=2, padding=1, output_padding=1)
    case("conv_transpose1d", up, x, draw(4, 3, 3))
    case("conv_transpose2d", conv(F.conv_transpose2d, stride=2), draw(1, 4, 3, 2), draw(4, 2, 3, 2))
    groups = conv(F.conv_transpose2d, stride=2, padding=1, dilation=2, groups=2)
    case("conv_transpose2d, dilated, in groups", groups, draw(1, 4, 3, 3), draw(4, 3, 2, 2))


def attend(q, k, v, bias=None, mask=None, causal=False, window=None, lengths=None):
    group, queries, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if bias is not None:
        scores = scores + bias
    distance = (torch.arange(queries) + keys - queries)[:, None] - torch.arange(keys)
    seen = torch.ones_like(scores, dtype=torch.bool)
    if causal:
        seen = seen & (distance >= 0)
    if window is not None:
        seen = seen & (distance.abs() < window)
    if mask is not None:
        seen = seen & (mask != 0)
    if lengths is not None:
        seen = seen & (torch.arange(keys) < lengths[:, None, None, None])
    # A row that sees nothing gives zeros; the scores are small.
    weights = scores.exp() * seen
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-300) @ v


def attentions():
    q, k, v = draw(2, 2, 5, 4), draw(2, 2, 5, 4), draw(2, 2, 5, 3)
    case("attention", attend, q, k, v)
    case("attention, causal", lambda q, k, v: attend(q, k, v, causal=True), q, k, v)
    few, kv, vv = draw(1, 4, 3, 4), draw(1, 2, 7, 4), draw(1, 2, 7, 4)
    case("attention, grouped", attend, few, kv, vv)
    case("attention, grouped, causal, more keys", lambda q, k, v: attend(q, k, v, causal=True), few, kv, vv)
    case("attention, window", lambda q, k, v: attend(q, k, v, window=2), q, k, v)
    both = lambda q, k, v: attend(q, k, v, causal=True, window=3)
    case("attention, causal window, more keys", both, few, kv, vv)
    # The first queries see nothing.
    case("attention, causal, fewer keys", lambda q, k, v: attend(q, k, v, causal=True), draw(1, 2, 6, 4), *(draw(1, 2, 4, 4) for _ in "kv"))
    case("attention, bias", lambda q, k, v, b: attend(q, k, v, bias=b), q, k, v, draw(2, 1, 5, 5))
    mask = torch.randint(0, 2, (2, 1, 5, 5))
    mask[0, 0, 2] = 0
    case("attention, mask", lambda q, k, v, m: attend(q, k, v, mask=m), q, k, v, mask)
    case("attention, lengths", lambda q, k, v, n: attend(q, k, v, lengths=n), q, k, v, torch.tensor([3, 5]))


def structure():
    table, rows = draw(5, 3), torch.tensor([4, 1, 1, 0, 2, 1])
    case("embedding", lambda w, i: F.embedding(i, w), table, rows)
    case("embedding with a padding row", lambda w, i: F.embedding(i, w, padding_idx=1), table, rows)
    case("scatter_add", lambda u, i: torch.zeros(5, 3).double().index_add(0, i, u), draw(6, 3), rows)
    case("roll", lambda x: x.roll(2, 1), draw(2, 5))
    case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), draw(2, 3))
    case("tril", lambda x: x.tril(-1), draw(4, 5))
    case("triu", lambda x: x.triu(1), draw(4, 5))


for build in (activations, rows, norms, losses, windows, convolutions, attentions, structure):
    build()
path = pathlib.Path(__file__).with_suffix(".json")
lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in CASES.items())
path.write_text(f'{{"pytorch":"{torch.__version__}","cases":{{\n{lines}\n}}}}\n')
print(f"{len(CASES)} cases, {path.stat().st_size} bytes")
