"""Writes optimisers.json: what PyTorch's optimisers, clipping and schedules do in 20 steps, in float64.

Lion and Adafactor are not in PyTorch 1.13; they follow the formulas of their papers (arXiv 2302.06675, algorithm 2;
arXiv 1804.04235, algorithms 4 and 5). Run with PyTorch 1.13 or newer: python3 optimisers.py
"""
import json
import math
import pathlib
import torch

STEPS = 20
torch.manual_seed(3)
START = [torch.randn(5, 3).float().double(), torch.randn(7).float().double()]
GRADIENTS = [[(torch.randn(5, 3) * 0.7).float().double(), (torch.randn(7) * 0.7).float().double()] for _ in range(STEPS)]


def train(make, rate=0.01, clip=None, every=1, groups=None, average=None):
    w, b = [torch.nn.Parameter(p.clone()) for p in START]
    optimizer = make([w, b] if groups is None else groups(w, b), rate)
    averages = None
    for number, gradients in enumerate(GRADIENTS):
        for p, g in zip((w, b), gradients):
            p.grad = g.clone() / every if p.grad is None else p.grad + g / every
        if (number + 1) % every:
            continue
        if clip:
            clip([w, b])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if average:
            now = [w.detach().clone(), b.detach().clone()]
            averages = now if averages is None else [average * a + (1 - average) * n for a, n in zip(averages, now)]
    return [t.detach().flatten().tolist() for t in (averages or (w, b))]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = (beta1 * m + (1 - beta1) * p.grad).sign()
                p -= group["lr"] * (direction + group["weight_decay"] * p)
                self.state[p]["m"] = beta2 * m + (1 - beta2) * p.grad


class Adafactor(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        rms = lambda x: x.square().mean().sqrt()
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                beta = 1 - t**-0.8
                square = p.grad.square() + 1e-30
                if p.dim() > 1:
                    r = state["r"] = beta * state.get("r", 0) + (1 - beta) * square.sum(1)
                    c = state["c"] = beta * state.get("c", 0) + (1 - beta) * square.sum(0)
                    v = torch.outer(r, c) / r.sum()
                else:
                    v = state["v"] = beta * state.get("v", 0) + (1 - beta) * square
                u = p.grad / v.sqrt()
                u = u / max(1.0, rms(u))
                p -= max(1e-3, rms(p)) * group["lr"] * u


o = torch.optim
no_decay = lambda w, b: [{"params": [w], "weight_decay": 0.1}, {"params": [b], "weight_decay": 0.0, "lr": 0.005}]
cases = {
    "sgd": train(lambda p, lr: o.SGD(p, lr)),
    "sgd_momentum": train(lambda p, lr: o.SGD(p, lr, momentum=0.9, weight_decay=0.1)),
    "sgd_nesterov": train(lambda p, lr: o.SGD(p, lr, momentum=0.9, nesterov=True)),
    "adam": train(lambda p, lr: o.Adam(p, lr, weight_decay=0.1)),
    "adamw": train(lambda p, lr: o.AdamW(p, lr, weight_decay=0.1)),
    "rmsprop": train(lambda p, lr: o.RMSprop(p, lr, weight_decay=0.1)),
    "rmsprop_centered": train(lambda p, lr: o.RMSprop(p, lr, momentum=0.9, centered=True)),
    "adagrad": train(lambda p, lr: o.Adagrad(p, lr, weight_decay=0.1)),
    "lion": train(lambda p, lr: Lion(p, lr, weight_decay=0.1)),
    "adafactor": train(lambda p, lr: Adafactor(p, lr)),
    "clip_norm": train(lambda p, lr: o.SGD(p, lr), clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 2.0)),
    "clip_value": train(lambda p, lr: o.SGD(p, lr), clip=lambda p: torch.nn.utils.clip_grad_value_(p, 0.5)),
    "groups": train(lambda p, lr: o.AdamW(p, lr), groups=no_decay),
    "accumulate": train(lambda p, lr: o.AdamW(p, lr, weight_decay=0.1), every=4),
    "average": train(lambda p, lr: o.AdamW(p, lr, weight_decay=0.1), average=0.9),
}


def rates(make, steps=30):
    optimizer = o.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


s = o.lr_scheduler
schedules = {
    "constant": [0.1] * 30,
    "cosine": rates(lambda x: s.CosineAnnealingLR(x, 30)),
    "step": rates(lambda x: s.StepLR(x, 7, gamma=0.3)),
    "polynomial": rates(lambda x: s.PolynomialLR(x, 25, power=2.0)),
    "one_cycle": rates(lambda x: s.OneCycleLR(x, 0.1, total_steps=30)),
    "linear": rates(lambda x: s.LinearLR(x, 0.1, 1.0, 10)),
    "chained": rates(
        lambda x: s.SequentialLR(x, [s.LinearLR(x, 0.1, 1.0, 10), s.CosineAnnealingLR(x, 20)], milestones=[10])
    ),
}
flat = lambda tensors: [t.flatten().tolist() for t in tensors]
text = {"start": flat(START), "gradients": [flat(g) for g in GRADIENTS], "cases": cases, "schedules": schedules}
shown = json.loads(json.dumps(text), parse_float=lambda x: float(f"{float(x):.10g}"))
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(shown).replace('], "', '],\n"') + "\n")
