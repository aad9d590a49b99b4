#!/usr/bin/env python3
"""Times OpenClaw's training step and PyTorch's in turn: ours, eager, compiled, ours, ... for a number of
rounds, so that the ratio holds on a machine whose speed drifts. One JSON line a model: medians, and the
median, least and greatest of the rounds' ratios, each to the faster of PyTorch's modes in that round.
With --amp LEVEL (O1, O2, O3) ours computes in bf16 at that level and PyTorch under bfloat16 autocast; on a CPU
ours in f32 then takes a turn as well, and "over_o0" is how much faster the level is.

    python3 compare.py --python /path/to/python [--rounds 9] [--seconds 1] [--amp O2] [model ...]
    python3 compare.py --device cuda --amp O2 --batch 64 --context 1024 gpt2-124m

Modes of the peer: train_step_pytorch.py lists them.
"""
import argparse
import json
import os
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Contestant:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit("failed: " + " ".join(command))

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet18", "gpt", "gpt2-124m"])
    parser.add_argument("--ours", default=os.path.join(HERE, "..", "build", "bin", "train_step"))
    parser.add_argument("--python", default="python3", help="one that has PyTorch")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--amp", default="", help="the level of ours, against bfloat16 autocast")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--modes", default="", help="of the peer; by default eager,compiled or compiled,cudnn")
    parser.add_argument("--batch", type=int, default=0, help="default: the model's")
    parser.add_argument("--context", type=int, default=0, help="default: the model's")
    args = parser.parse_args()
    gpu = args.device != "cpu"
    modes = (args.modes or ("compiled,cudnn" if gpu else "eager,compiled")).split(",")
    common = ["--seconds", str(args.seconds), "--batch", str(args.batch), "--context", str(args.context), "--rounds"]
    if gpu:
        common += ["--device", args.device]
    peer = [args.python, os.path.join(HERE, "train_step_pytorch.py")] + common + (["--amp"] if args.amp else [])
    for model in args.models:
        ours = [args.ours, model] + common
        commands = [ours + (["--amp", args.amp] if args.amp else [])]
        commands += [peer + [model, "--modes", mode] for mode in modes]
        o0 = args.amp and not gpu
        contestants = [Contestant(command) for command in commands + ([ours] if o0 else [])]
        rounds = [[c.measure() for c in contestants] for _ in range(args.rounds)]
        for c in contestants:
            c.end()

        def median(i, key):
            return round(statistics.median(r[i][key] for r in rounds), 3)

        ratios = [min(r[1 + i]["ms"] for i in range(len(modes))) / r[0]["ms"] for r in rounds]
        line = {"model": model, "openclaw_ms": median(0, "ms")}
        for i, mode in enumerate(modes):
            line[mode + "_ms"] = median(1 + i, "ms")
            if gpu:
                line[mode + "_peak_gib"] = median(1 + i, "peak_gib")
        line |= {"ratio": round(statistics.median(ratios), 3), "least": round(min(ratios), 3),
                 "greatest": round(max(ratios), 3)}
        line |= {key: median(0, key) for key in ("gflops", "share_of_peak", "predicted_ms", "arenas_gib")}
        if args.amp:
            line["amp_level"] = args.amp
        if o0:
            line |= {"o0_ms": median(-1, "ms"),
                     "over_o0": round(statistics.median(r[-1]["ms"] / r[0]["ms"] for r in rounds), 3)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
