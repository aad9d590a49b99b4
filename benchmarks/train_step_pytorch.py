#!/usr/bin/env python3
"""The peer of train_step.cc: the same models, batches and optimizers in PyTorch, in float32, or with --amp
under bfloat16 autocast. One JSON line a model and mode:

    eager
    compiled    model and loss under torch.compile
    cudnn       the same with cuDNN's attention chosen
    graphs      the same in mode "reduce-overhead": CUDA graphs

    python3 train_step_pytorch.py [--modes eager,compiled] [--device cuda] [--batch N] [--context N] [--amp]
                                  [--threads 2] [--seconds 5] [--rounds] [model ...]

On a GPU steps are enqueued without a look at their losses, and timed ten at a time.
"""
import argparse
import contextlib
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


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        o = 4 * width
        self.c1, self.b1 = nn.Conv2d(i, width, 1, bias=False), nn.BatchNorm2d(width)
        self.c2, self.b2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c3, self.b3 = nn.Conv2d(width, o, 1, bias=False), nn.BatchNorm2d(o)
        self.down = None
        if stride != 1 or i != o:
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        h = F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))))
        return F.relu(self.b3(self.c3(h)) + (x if self.down is None else self.down(x)))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, channels, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


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


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.n1, self.n2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.size, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).split([c, self.kv_heads * self.size, self.kv_heads * self.size], -1)
        q, k, v = (y.view(b, t, -1, self.size).transpose(1, 2) for y in (q, k, v))

        def turn(y):
            left, right = y.chunk(2, -1)
            return y * cos + torch.cat((-right, left), -1) * sin

        a = F.scaled_dot_product_attention(turn(q).to(v.dtype), turn(k).to(v.dtype), v, is_causal=True,
                                           enable_gqa=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, kv_heads, ffn, context, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv_heads, ffn) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, 1e-5), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(context), 10000 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x)).flatten(0, 1)


# layers, width, heads, context, vocabulary, batch
GPT2 = {"gpt": (4, 256, 4, 256, 256, 8), "gpt2-124m": (12, 768, 12, 64, 50304, 4),
        "gpt2-350m": (24, 1024, 16, 1024, 50304, 32), "gpt2-1.5b": (48, 1600, 25, 1024, 50304, 16)}


def make(name, args):
    language = name in GPT2 or name == "llama-1.1b"
    if language:
        layers, width, heads, context, vocabulary, batch = GPT2.get(name, (22, 2048, 32, 2048, 32000, 8))
        batch, context = args.batch or batch, args.context or context
        model = (Gpt(layers, width, heads, context, vocabulary) if name in GPT2
                 else Llama(layers, width, heads, 4, 5632, context, vocabulary))
        x, y = torch.randint(vocabulary, (batch, context)), torch.randint(vocabulary, (batch * context,))
    elif name == "mlp":
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024),
                              nn.ReLU(), nn.Linear(1024, 10))
        batch, shape, classes = args.batch or 128, (1, 28, 28), 10
    elif name == "lenet":
        model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                              nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                              nn.Linear(84, 10))
        batch, shape, classes = args.batch or 128, (1, 28, 28), 10
    elif name == "resnet18":
        model, batch, shape, classes = resnet18(), args.batch or 32, (3, 32, 32), 10
    elif name == "resnet50":
        model, batch, shape, classes = resnet50(), args.batch or 256, (3, 224, 224), 1000
    else:
        raise SystemExit("unknown model " + name)
    if not language:
        x, y = torch.randn(batch, *shape), torch.randint(classes, (batch,))
    if name.startswith("resnet"):
        model, x = (t.to(memory_format=torch.channels_last) for t in (model, x))
    model, x, y = (t.to(args.device) for t in (model, x, y))
    optimizer = (torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.1, fused=True) if language
                 else torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9))
    return model, x, y, optimizer, language


def measure(name, mode, args):
    torch.manual_seed(1)
    model, x, y, optimizer, clip = make(name, args)
    gpu = args.device != "cpu"

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    if gpu and mode != "eager":
        forward = torch.compile(loss_of, mode="reduce-overhead" if mode == "graphs" else None)
    else:  # the loss's compiled code is slower than the library's on a CPU
        compiled = model if mode == "eager" else torch.compile(model)
        forward = lambda x, y: F.cross_entropy(compiled(x), y)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with attention(mode), torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.amp):
            loss = forward(x, y)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    chunk = 10 if gpu else 1

    def time_steps():
        times, begin = [], time.perf_counter()
        while len(times) < 6 or time.perf_counter() - begin < args.seconds:
            t = time.perf_counter()
            for _ in range(chunk):
                loss = step()
            loss.item()
            times.append((time.perf_counter() - t) / chunk)
        peak = {"peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)} if gpu else {}
        print(json.dumps({"model": name, "framework": "pytorch " + torch.__version__,
                          "mode": mode, "autocast": args.amp,
                          "ms": round(statistics.median(times) * 1e3, 3), **peak}), flush=True)

    for _ in range(4):
        step().item()
    if not args.rounds:
        time_steps()
        return
    print("ready", flush=True)
    for _ in sys.stdin:  # a line is one more measurement (compare.py)
        time_steps()


def attention(mode):
    if mode not in ("cudnn", "graphs"):
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
                       set_priority=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet18", "gpt", "gpt2-124m"])
    parser.add_argument("--modes", default="eager", help="eager, compiled, cudnn, graphs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--amp", action="store_true", help="under bfloat16 autocast")
    parser.add_argument("--rounds", action="store_true", help="measure once a line of the standard input")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.models:
        for mode in args.modes.split(","):
            measure(name, mode, args)


if __name__ == "__main__":
    main()
