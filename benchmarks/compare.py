#!/usr/bin/env python3
"""Times OpenClaw's training step and PyTorch's in turn: ours, eager, compiled, ours, ... for a number of
rounds, so that the ratio holds on a machine whose speed drifts. One JSON line a model: medians, and the
median, least and greatest of the rounds' ratios, each to the faster of PyTorch's two modes in that round.

    python3 compare.py --python /path/to/python [--rounds 9] [--seconds 1] [model ...]
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
    args = parser.parse_args()
    common = ["--seconds", str(args.seconds), "--rounds"]
    peer = [args.python, os.path.join(HERE, "train_step_pytorch.py")] + common
    for model in args.models:
        ours = Contestant([args.ours, model] + common)
        eager = Contestant(peer + [model])
        compiled = Contestant(peer + [model, "--compile"])
        rounds = [[c.measure() for c in (ours, eager, compiled)] for _ in range(args.rounds)]
        for c in (ours, eager, compiled):
            c.end()
        ratios = [min(e["ms"], c["ms"]) / o["ms"] for o, e, c in rounds]
        median = lambda i, key: round(statistics.median(r[i][key] for r in rounds), 3)
        print(json.dumps({"model": model, "openclaw_ms": median(0, "ms"), "eager_ms": median(1, "ms"),
                          "compiled_ms": median(2, "ms"), "ratio": round(statistics.median(ratios), 3),
                          "least": round(min(ratios), 3), "greatest": round(max(ratios), 3),
                          "gflops": median(0, "gflops"), "share_of_peak": median(0, "share_of_peak"),
                          "predicted_ms": median(0, "predicted_ms")}), flush=True)


if __name__ == "__main__":
    main()
