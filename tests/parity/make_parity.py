#!/usr/bin/env python3
"""Makes parity.json: forward and gradients of each model in PyTorch, float64, with the error that
PyTorch's own float32 has against it. Run once, by hand; the tests need neither Python nor PyTorch.

Weights and inputs come from a formula (uniform below), so that none are stored: parity_test.cc has
the same. A tensor is kept as its norm and 64 samples at fixed places.

    python3 make_parity.py > parity.json
"""
import json
import math

import numpy as np
import torch
import torch.nn.functional as F

MASK = (1 << 64) - 1


def fnv1a(text):
    h = 0xCBF29CE484222325
    for c in text.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK
    return h


def uniform(name, n):
    """Element i of tensor `name`, in [-1, 1): splitmix64 of the name's hash plus i."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(fnv1a(name))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) * 2.0 ** -23 - 1.0


def weight(name, shape):
    u = uniform(name, math.prod(shape))
    if len(shape) > 1:  # variance 1 / fan-in
        u = u * math.sqrt(3.0 / math.prod(shape[1:]))
    elif name.endswith("weight"):
        u = 1.0 + 0.1 * u
    else:
        u = 0.1 * u
    return u.astype(np.float32).astype(np.float64).reshape(shape)


class Params(dict):
    """Parameters by name, made when they are first asked for."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def get(self, name, *shape):
        if name not in self:
            self[name] = torch.tensor(weight(name, shape), dtype=self.dtype, requires_grad=True)
        return self[name]


def linear(p, name, x, outputs, bias=True):
    return F.linear(x, p.get(name + ".weight", outputs, x.shape[-1]),
                    p.get(name + ".bias", outputs) if bias else None)


def images(dtype, b):
    x = uniform("images", b * 28 * 28).astype(np.float32).reshape(b, 28, 28, 1)
    return torch.tensor(x, dtype=dtype), torch.arange(b) % 10


def tokens(b, t, vocabulary):
    ids = ((uniform("tokens", b * t) + 1.0) * 0.5 * vocabulary).astype(np.int64).reshape(b, t)
    targets = np.roll(ids, -1, axis=1)
    targets[0, : t // 2] = -1  # some count nothing
    return torch.tensor(ids), torch.tensor(targets)


def mean_loss(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1)


def mlp(p):
    x, y = images(p.dtype, 16)
    h = x.reshape(16, -1)
    h = F.relu(linear(p, "layers.0", h, 96))
    h = F.relu(linear(p, "layers.1", h, 64))
    return mean_loss(linear(p, "layers.2", h, 10), y)


def conv(p, name, x, channels, kernel, stride=1, padding=0, bias=False):
    w = p.get(name + ".weight", channels, x.shape[1], kernel, kernel)
    return F.conv2d(x, w, p.get(name + ".bias", channels) if bias else None, stride, padding)


def lenet(p):
    x, y = images(p.dtype, 16)
    h = x.permute(0, 3, 1, 2)
    h = F.max_pool2d(F.relu(conv(p, "conv1", h, 6, 5, padding=2, bias=True)), 2)
    h = F.max_pool2d(F.relu(conv(p, "conv2", h, 16, 5, bias=True)), 2)
    h = h.permute(0, 2, 3, 1).reshape(16, -1)  # flattened as rows of pixels
    h = F.relu(linear(p, "fc1", h, 120))
    h = F.relu(linear(p, "fc2", h, 84))
    return mean_loss(linear(p, "fc3", h, 10), y)


def norm2d(p, name, x):
    c = x.shape[1]
    return F.batch_norm(x, None, None, p.get(name + ".weight", c), p.get(name + ".bias", c), True)


def resnet18(p):
    x, y = images(p.dtype, 16)
    h = F.relu(norm2d(p, "bn1", conv(p, "conv1", x.permute(0, 3, 1, 2), 8, 3, padding=1)))
    for stage in range(4):
        channels = 8 << stage
        for block in range(2):
            name = f"layer{stage + 1}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            r = F.relu(norm2d(p, name + ".bn1", conv(p, name + ".conv1", h, channels, 3, stride, 1)))
            r = norm2d(p, name + ".bn2", conv(p, name + ".conv2", r, channels, 3, 1, 1))
            if stride == 2:
                h = norm2d(p, name + ".downsample.1", conv(p, name + ".downsample.0", h, channels, 1, stride))
            h = F.relu(h + r)
    return mean_loss(linear(p, "fc", h.mean(dim=(2, 3)), 10), y)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def gpt(p):
    width, heads, context, vocabulary = 32, 2, 24, 61
    ids, targets = tokens(4, context, vocabulary)
    wte = p.get("transformer.wte.weight", vocabulary, width)
    h = F.embedding(ids, wte) + p.get("transformer.wpe.weight", context, width)

    def norm(name, x):
        return F.layer_norm(x, (width,), p.get(name + ".weight", width), p.get(name + ".bias", width))

    for i in range(2):
        name = f"transformer.h.{i}"
        qkv = linear(p, name + ".attn.c_attn", norm(name + ".ln_1", h), 3 * width)
        q, k, v = (t.reshape(4, context, heads, -1).transpose(1, 2) for t in qkv.split(width, -1))
        a = attention(q, k, v).transpose(1, 2).reshape(4, context, width)
        h = h + linear(p, name + ".attn.c_proj", a, width)
        m = F.gelu(linear(p, name + ".mlp.c_fc", norm(name + ".ln_2", h), 4 * width), approximate="tanh")
        h = h + linear(p, name + ".mlp.c_proj", m, width)
    return mean_loss(F.linear(norm("transformer.ln_f", h), wte), targets)


def rotate(x, base=10000.0):
    t, d = x.shape[2], x.shape[3]
    angle = torch.arange(t, dtype=torch.float64)[:, None] * base ** (
        -torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def llama(p):
    width, heads, kv, context, vocabulary, ffn = 32, 4, 2, 24, 61, 48
    d = width // heads
    ids, targets = tokens(4, context, vocabulary)
    h = F.embedding(ids, p.get("model.embed_tokens.weight", vocabulary, width))

    def norm(name, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * p.get(name + ".weight", width)

    for i in range(2):
        name = f"model.layers.{i}"
        qkv = linear(p, name + ".self_attn.qkv_proj", norm(name + ".input_layernorm", h),
                     (heads + 2 * kv) * d, bias=False)
        q, k, v = (t.reshape(4, context, -1, d).transpose(1, 2)
                   for t in qkv.split([heads * d, kv * d, kv * d], -1))
        q, k = rotate(q), rotate(k)
        k, v = (t.repeat_interleave(heads // kv, dim=1) for t in (k, v))
        a = attention(q, k, v).transpose(1, 2).reshape(4, context, width)
        h = h + linear(p, name + ".self_attn.o_proj", a, width, bias=False)
        x = norm(name + ".post_attention_layernorm", h)
        m = F.silu(linear(p, name + ".mlp.gate_proj", x, ffn, False)) * linear(
            p, name + ".mlp.up_proj", x, ffn, False)
        h = h + linear(p, name + ".mlp.down_proj", m, width, bias=False)
    return mean_loss(linear(p, "lm_head", norm("model.norm", h), vocabulary, False), targets)


def run(model, dtype):
    p = Params(dtype)
    loss = model(p)
    loss.backward()
    result = {"loss": loss.detach().double().reshape(1).numpy()}
    for name, w in p.items():
        result["grad." + name] = w.grad.double().reshape(-1).numpy()
    return result


def main():
    torch.set_num_threads(1)
    models = {}
    for model in (mlp, lenet, resnet18, gpt, llama):
        exact, single = run(model, torch.float64), run(model, torch.float32)
        tensors = {}
        for name, value in exact.items():
            places = [(i * 2654435761) % value.size for i in range(min(64, value.size))]
            norm = float(np.linalg.norm(value))
            error = float(np.linalg.norm(single[name] - value)) / max(norm, 1e-300)
            tensors[name] = {"size": int(value.size), "norm": norm, "torch_f32_error": error,
                             "samples": [float(value[i]) for i in places]}
        models[model.__name__] = tensors
    print(json.dumps({"torch": torch.__version__, "models": models}, indent=0))


if __name__ == "__main__":
    main()
