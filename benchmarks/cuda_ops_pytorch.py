"""PyTorch's time for the ops of cuda_ops.cc, eager, each the median over CUDA events.

    python3 benchmarks/cuda_ops_pytorch.py
"""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"


def median_us(run, sets, rounds=30):
    """Of run(set) over sets in turn."""
    for s in sets:
        run(s)
    torch.cuda.synchronize()
    times = []
    for i in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run(sets[i % len(sets)])
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def report(name, us):
    print(f"{name:46s} {us:9.1f} us", flush=True)


def rand(*shape, dtype=torch.bfloat16, grad=False):
    return torch.rand(*shape, device=DEVICE, dtype=dtype).requires_grad_(grad)


def forward_backward(name, forward, inputs, grads):
    """Times forward, and the gradient by itself. inputs: a list of argument tuples."""
    with torch.no_grad():
        report(name, median_us(lambda x: forward(*x), inputs))
    outputs = [(forward(*x), x) for x in inputs]
    dy = torch.rand_like(outputs[0][0])
    report(name + " grad", median_us(
        lambda o: torch.autograd.grad(o[0], [o[1][g] for g in grads], dy, retain_graph=True),
        outputs))


def main():
    print(torch.__version__, torch.backends.cudnn.version())
    for rows, columns in [(65536, 768), (16384, 1600)]:
        w, b = rand(columns, grad=True), rand(columns, grad=True)
        forward_backward(f"layer_norm {rows}x{columns}",
                         lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
                         [(rand(rows, columns, grad=True), w, b) for _ in range(3)], [0, 1, 2])
    w = rand(2048, grad=True)
    forward_backward("rms_norm 16384x2048", lambda x, w: F.rms_norm(x, (2048,), w),
                     [(rand(16384, 2048, grad=True), w) for _ in range(3)], [0, 1])
    labels = torch.randint(0, 50304, (16384,), device=DEVICE)
    forward_backward("cross_entropy 16384x50304",
                     lambda x: F.cross_entropy(x, labels, reduction="sum"),
                     [(rand(16384, 50304, grad=True),) for _ in range(2)], [0])
    forward_backward("softmax 65536x1024", lambda x: F.softmax(x, -1),
                     [(rand(65536, 1024, grad=True),) for _ in range(3)], [0])
    ids = torch.randint(0, 50304, (64, 1024), device=DEVICE)
    forward_backward("embedding 65536 of 50304x768", lambda t: F.embedding(ids, t),
                     [(rand(50304, 768, grad=True),) for _ in range(3)], [0])
    for batch, time, heads, kv, width in [(32, 1024, 12, 12, 64), (16, 1024, 25, 25, 64),
                                          (8, 2048, 32, 4, 64), (2, 4096, 32, 32, 128)]:
        def attend(q, k, v):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                      enable_gqa=q.shape[1] != k.shape[1])
        def part(n):
            return rand(batch, time, n, width).transpose(1, 2).requires_grad_(True)
        try:
            forward_backward(f"attention {batch}x{time} {heads}/{kv} of {width}", attend,
                             [(part(heads), part(kv), part(kv)) for _ in range(3)], [0, 1, 2])
        except RuntimeError as e:
            print("attention", batch, time, heads, kv, width, str(e).splitlines()[0])
    report("dropout 65536x768", median_us(lambda x: F.dropout(x, 0.1), [rand(65536, 768) for _ in range(3)]))
    image = [(rand(256, 64, 112, 112).to(memory_format=torch.channels_last).requires_grad_(True),)
             for _ in range(2)]
    forward_backward("max_pool2d of 112x112x64", lambda x: F.max_pool2d(x, 3, 2, 1), image, [0])
    shapes = [(50304, 768), (1024, 768)] + 12 * [
        (768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,), (3072, 768),
        (3072,), (768, 3072), (768,)] + [(768,), (768,)]
    for name, make in [("adamw of 124M (f32 gradients)",
                        lambda p: torch.optim.AdamW(p, fused=True)),
                       ("sgd of 124M (f32 gradients)",
                        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True))]:
        parameters = [rand(*s, dtype=torch.float32, grad=True) for s in shapes]
        for p in parameters:
            p.grad = torch.rand_like(p)
        optimizer = make(parameters)
        report(name, median_us(lambda _: optimizer.step(), [None]))
    x, y = rand(1 << 30), torch.empty(1 << 30, device=DEVICE, dtype=torch.bfloat16)
    us = median_us(lambda _: y.copy_(x), [None])
    print(f"device copy: {4 * (1 << 30) / us * 1e-6:.2f} TB/s")
    a = rand(8192, 8192)
    us = median_us(lambda _: a @ a, [None])
    print(f"bf16 product 8192^3: {2 * 8192 ** 3 / us * 1e-6:.0f} TFLOP/s")


main()
