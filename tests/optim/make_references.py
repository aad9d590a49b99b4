"""Writes references.json: a hundred steps of each optimizer, and learning rates of each schedule.

    python tests/optim/make_references.py > tests/optim/references.json

PyTorch's optimizers where it has them, else the paper's formulas, each in float64 and in float32 on
the same gradients. What is written of every parameter after steps 1 and 100 are its norm and
samples. PyTorch's Muon iterates in bfloat16; here its own code does in the parameter's type.
"""
import inspect
import json
import math
import sys

import numpy as np
import torch
import torch.optim._muon as torch_muon
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

SHAPES = {
    "embed.weight": (300, 256),  # more than one chunk of the norms' sums
    "up.weight": (40, 256),
    "up.bias": (40,),
    "down.weight": (80, 40),
    "head.weight": (8, 80),
}
HIDDEN = ("up.weight", "down.weight")
STEPS, SAMPLES = 100, 40


def stream_of(name):
    """core/rng.h, StreamOf."""
    h = 0xcbf29ce484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001b3) & (2**64 - 1)
    return h


def uniform(name, n):
    """Elements 0..n-1 of tensor `name`, in [-1, 1), exact in float32."""
    mask = np.uint64(2**64 - 1)
    with np.errstate(over="ignore"):
        z = (np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) +
             np.uint64(stream_of(name))) & mask
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1.0


def tensor(name, scale, dtype):
    shape = SHAPES[name.split("@")[0]]
    values = uniform(name, math.prod(shape)) * scale
    return torch.tensor(values, dtype=torch.float64).reshape(shape).to(dtype)


class Lion(torch.optim.Optimizer):
    """Chen et al., 2023, algorithm 2."""

    def __init__(self, params, lr, betas, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p.sub_(group["lr"] * (torch.sign(c) + group["weight_decay"] * p))
                self.state[p]["m"] = beta2 * m + (1 - beta2) * p.grad


class Lamb(torch.optim.Optimizer):
    """You et al., 2020, algorithm 2, phi the identity."""

    def __init__(self, params, lr, betas, eps, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, t=0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            group["t"] += 1
            for p in group["params"]:
                s = self.state[p]
                s["m"] = beta1 * s.get("m", torch.zeros_like(p)) + (1 - beta1) * p.grad
                s["v"] = beta2 * s.get("v", torch.zeros_like(p)) + (1 - beta2) * p.grad**2
                r = (s["m"] / (1 - beta1**group["t"])) / (
                    torch.sqrt(s["v"] / (1 - beta2**group["t"])) + group["eps"])
                u = r + group["weight_decay"] * p
                w_norm, u_norm = p.norm(), u.norm()
                ratio = w_norm / u_norm if w_norm > 0 and u_norm > 0 else 1.0
                p.sub_(group["lr"] * ratio * u)


class Both:
    """Two optimizers as one."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers
        self.param_groups = [g for o in optimizers for g in o.param_groups]

    def step(self):
        for o in self.optimizers:
            o.step()


# Muon's iteration in the type that it is given.
source = inspect.getsource(torch_muon._zeropower_via_newtonschulz)
assert "torch.bfloat16" in source
exec(source.replace("torch.bfloat16", "grad.dtype"), torch_muon.__dict__)


def decay_groups(p, decay):
    """No decay of biases."""
    return [{"params": [v for k, v in p.items() if "bias" not in k], "weight_decay": decay},
            {"params": [v for k, v in p.items() if "bias" in k], "weight_decay": 0.0}]


def muon(p, aux, **options):
    rest = {k: v for k, v in p.items() if k not in HIDDEN}
    return Both(torch.optim.Muon([p[k] for k in HIDDEN], **options),
                torch.optim.AdamW(decay_groups(rest, aux.pop("weight_decay")), **aux))


def cosine(step, lr):
    """Ten steps of warm-up, then to a tenth of the rate."""
    if step < 10:
        return lr * (step + 1) / 10
    done = (step - 10) / (STEPS - 1 - 10)
    return lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


EPS1 = 2.0**-23
torch_optim = torch.optim
# name -> how it is made; and clip_norm, clip_value, a schedule, an average.
CASES = {
    "sgd": (lambda p: torch_optim.SGD(decay_groups(p, 0.1), lr=0.05), {}),
    "sgd momentum": (lambda p: torch_optim.SGD(decay_groups(p, 0.01), lr=0.02, momentum=0.9), {}),
    "sgd nesterov": (lambda p: torch_optim.SGD(decay_groups(p, 0.01), lr=0.02, momentum=0.9,
                                               nesterov=True), {"clip_norm": 5.0}),
    "adam": (lambda p: torch_optim.Adam(decay_groups(p, 0.1), lr=0.01), {}),
    "adamw": (lambda p: torch_optim.AdamW(decay_groups(p, 0.1), lr=0.01, betas=(0.9, 0.95)),
              {"clip_norm": 5.0, "schedule": cosine}),
    "adamw clipped": (lambda p: torch_optim.AdamW(decay_groups(p, 0.1), lr=0.01),
                      {"clip_value": 0.05, "ema": 0.9}),
    "adamw groups": (lambda p: torch_optim.AdamW(
        [{"params": [p["up.weight"]], "lr": 0.005, "weight_decay": 0.3},
         {"params": [p["up.bias"]], "lr": 0.005, "weight_decay": 0.0},
         {"params": [p["head.weight"]], "lr": 0.02, "weight_decay": 0.0}] +
        [{"params": [p["embed.weight"], p["down.weight"]], "weight_decay": 0.1}], lr=0.01), {}),
    "lamb": (lambda p: Lamb(decay_groups(p, 0.1), lr=0.01, betas=(0.9, 0.999), eps=1e-6), {}),
    "lion": (lambda p: Lion(decay_groups(p, 0.1), lr=0.001, betas=(0.9, 0.99)), {}),
    "adafactor": (lambda p: torch_optim.Adafactor(decay_groups(p, 0.1), lr=0.02,
                                                  eps=(EPS1, 1e-3)), {}),
    "adafactor d": (lambda p: torch_optim.Adafactor(decay_groups(p, 0.0), lr=0.02, d=1.5,
                                                    beta2_decay=-0.6, eps=(EPS1, 1e-2)),
                    {"clip_norm": 5.0}),
    "muon": (lambda p: muon(p, {"lr": 0.003, "betas": (0.9, 0.95), "weight_decay": 0.05}, lr=0.02,
                            weight_decay=0.1), {}),
    "muon rms": (lambda p: muon(p, {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.0},
                                lr=0.01, weight_decay=0.1, momentum=0.9, nesterov=False,
                                adjust_lr_fn="match_rms_adamw"), {"clip_norm": 5.0}),
}


class Model(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        for name in SHAPES:
            setattr(self, name.replace(".", "_"), torch.nn.Parameter(tensor(name, 0.5, dtype)))

    def named(self):
        return {name: getattr(self, name.replace(".", "_")) for name in SHAPES}


def samples(t):
    flat = t.detach().double().flatten()
    stride = max(1, flat.numel() // SAMPLES)
    return [float(x) for x in flat[::stride][:SAMPLES]]


def run(make, dtype, clip_norm=None, clip_value=None, schedule=None, ema=None):
    model = Model(dtype)
    p = model.named()
    optimizer = make(p)
    rates = [g["lr"] for g in optimizer.param_groups]
    average = None if ema is None else AveragedModel(model, avg_fn=get_ema_avg_fn(ema))
    result = {}
    for step in range(STEPS):
        for name, value in p.items():
            value.grad = tensor(f"{name}@{step}", 0.125, dtype)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(p.values(), clip_norm)
        if clip_value:
            torch.nn.utils.clip_grad_value_(p.values(), clip_value)
        if schedule:
            for group, lr in zip(optimizer.param_groups, rates):
                group["lr"] = schedule(step, lr)
        optimizer.step()
        if average is not None:
            average.update_parameters(model)
        if step + 1 in (1, STEPS):
            kept = dict(p)
            if average is not None:
                kept |= {"ema." + k: v for k, v in average.module.named().items()}
            result[str(step + 1)] = {
                k: {"norm": float(v.detach().double().norm()), "samples": samples(v)}
                for k, v in kept.items()}
    return result


def rates(make, steps=30, lr=0.5):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return out


def warmed(make):
    """Five steps of warm-up to the rate, then the other schedule from its own beginning."""
    def sequence(o):
        warm = lr_scheduler.LinearLR(o, start_factor=1 / 5, end_factor=1, total_iters=4)
        return lr_scheduler.SequentialLR(o, [warm, make(o)], milestones=[5])
    return sequence


def chained(make):
    """Both from the first step on, multiplied."""
    def chain(o):
        warm = lr_scheduler.LinearLR(o, start_factor=1 / 5, end_factor=1, total_iters=4)
        return lr_scheduler.ChainedScheduler([warm, make(o)])
    return chain


SCHEDULES = {
    "linear": rates(lambda o: lr_scheduler.LinearLR(o, 1, 0.2, total_iters=29)),
    "linear warmed": rates(warmed(lambda o: lr_scheduler.LinearLR(o, 1, 0.2, total_iters=24))),
    "cosine": rates(lambda o: lr_scheduler.CosineAnnealingLR(o, 29, eta_min=0.1)),
    "cosine warmed": rates(warmed(lambda o: lr_scheduler.CosineAnnealingLR(o, 24, eta_min=0.1))),
    "polynomial": rates(lambda o: lr_scheduler.PolynomialLR(o, total_iters=29, power=2.5)),
    "polynomial warmed": rates(warmed(
        lambda o: lr_scheduler.PolynomialLR(o, total_iters=24, power=2.5))),
    "step": rates(lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3)),
    "step warmed": rates(chained(lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3))),
    "milestones": rates(lambda o: lr_scheduler.MultiStepLR(o, [4, 10, 11], gamma=0.3)),
    "milestones warmed": rates(chained(
        lambda o: lr_scheduler.MultiStepLR(o, [3, 10, 11], gamma=0.3))),
}


def rounded(value, digits):
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}")


optimizers = {}
for name, (make, options) in CASES.items():
    wide = run(make, torch.float64, **options)
    narrow = run(make, torch.float32, **options)
    optimizers[name] = {"float64": rounded(wide, 12), "float32": rounded(narrow, 9)}
    worst = {}
    for step in wide:
        for k in wide[step]:
            a, b = np.array(wide[step][k]["samples"]), np.array(narrow[step][k]["samples"])
            worst[step] = max(worst.get(step, 0), np.linalg.norm(a - b) / np.linalg.norm(a))
    print(name, worst, file=sys.stderr)

def lines(values):
    """One line an entry."""
    return "{" + ",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}"
                            for k, v in values.items()) + "}"


print(f'{{"torch":{json.dumps(torch.__version__)},\n"schedules":{lines(SCHEDULES)},\n'
      f'"optimizers":{lines(optimizers)}}}')
