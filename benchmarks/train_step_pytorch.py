#!/usr/bin/env python3
"""The peer of train_step.cc: the same models, batches and optimizers in PyTorch on the CPU, in float32,
or with --amp under bfloat16 autocast. One JSON line a model and mode (eager, compiled).

    python3 train_step_pytorch.py [--threads 2] [--seconds 5] [--compile] [--amp] [--rounds] [model ...]
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.down = None
        if stride != 1 or i != o:
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        h = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        return F.relu(h + (x if self.down is None else self.down(x)))


def resnet18():
    layers, width = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            layers.append(Block(width, channels, 2 if stage > 0 and block == 0 else 1))
            width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).split(c, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(a)
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


def make(name):
    if name == "mlp":
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024),
                              nn.ReLU(), nn.Linear(1024, 10))
        x, y = torch.randn(128, 1, 28, 28), torch.randint(10, (128,))
    elif name == "lenet":
        model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                              nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                              nn.Linear(84, 10))
        x, y = torch.randn(128, 1, 28, 28), torch.randint(10, (128,))
    elif name == "resnet18":
        model = resnet18().to(memory_format=torch.channels_last)
        x = torch.randn(32, 3, 32, 32).to(memory_format=torch.channels_last)
        y = torch.randint(10, (32,))
    else:
        layers, width, heads, context, vocabulary, batch = (
            (4, 256, 4, 256, 256, 8) if name == "gpt" else (12, 768, 12, 64, 50304, 4))
        model = Gpt(layers, width, heads, context, vocabulary)
        x = torch.randint(vocabulary, (batch, context))
        y = torch.randint(vocabulary, (batch * context,))
    language = name.startswith("gpt")
    optimizer = (torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.1, fused=True) if language
                 else torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9))
    return model, x, y, optimizer, language


def measure(name, compiled, amp, seconds, rounds):
    torch.manual_seed(1)
    model, x, y, optimizer, clip = make(name)
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(forward(x), y)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def time_steps():
        times, begin = [], time.perf_counter()
        while len(times) < 6 or time.perf_counter() - begin < seconds:
            t = time.perf_counter()
            step()
            times.append(time.perf_counter() - t)
        print(json.dumps({"model": name, "framework": "pytorch " + torch.__version__,
                          "mode": "compiled" if compiled else "eager", "autocast": amp,
                          "ms": round(statistics.median(times) * 1e3, 3)}), flush=True)

    for _ in range(4):
        step()
    if not rounds:
        time_steps()
        return
    print("ready", flush=True)
    for _ in sys.stdin:  # a line is one more measurement (compare.py)
        time_steps()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet18", "gpt", "gpt2-124m"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--amp", action="store_true", help="under bfloat16 autocast")
    parser.add_argument("--rounds", action="store_true", help="measure once a line of the standard input")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.models:
        if args.rounds:
            measure(name, args.compile, args.amp, args.seconds, True)
            continue
        measure(name, False, args.amp, args.seconds, False)
        if args.compile:
            measure(name, True, args.amp, args.seconds, False)


if __name__ == "__main__":
    main()
