#!/usr/bin/env python3
"""Times OpenClaw's training step and PyTorch's in turn: ours, eager, compiled, ours, ... for a number of
rounds, so that the ratio holds on a machine whose speed drifts. One JSON line a model: medians, and the
median, least and greatest of the rounds' ratios, each to the faster of PyTorch's two modes in that round.
With --amp LEVEL (O1, O2, O3) ours computes in bf16 at that level and PyTorch under bfloat16 autocast; ours in
f32 then takes a turn as well, and "over_o0" is how much faster the level is.

    python3 compare.py --python /path/to/python [--rounds 9] [--seconds 1] [--amp O2] [model ...]
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
    args = parser.parse_args()
    common = ["--seconds", str(args.seconds), "--rounds"]
    peer = [args.python, os.path.join(HERE, "train_step_pytorch.py")] + common
    for model in args.models:
        amp = ["--amp"] if args.amp else []
        contestants = [Contestant([args.ours, model] + common + (amp + [args.amp] if amp else [])),
                       Contestant(peer + [model] + amp), Contestant(peer + [model, "--compile"] + amp)]
        if amp:
            contestants.append(Contestant([args.ours, model] + common))
        rounds = [[c.measure() for c in contestants] for _ in range(args.rounds)]
        for c in contestants:
            c.end()
        ratios = [min(r[1]["ms"], r[2]["ms"]) / r[0]["ms"] for r in rounds]
        median = lambda i, key: round(statistics.median(r[i][key] for r in rounds), 3)
        line = {}
        if amp:
            line = {"amp_level": args.amp, "o0_ms": median(3, "ms"),
                    "over_o0": round(statistics.median(r[3]["ms"] / r[0]["ms"] for r in rounds), 3)}
        print(json.dumps({"model": model, "openclaw_ms": median(0, "ms"), "eager_ms": median(1, "ms"),
                          "compiled_ms": median(2, "ms"), "ratio": round(statistics.median(ratios), 3),
                          "least": round(min(ratios), 3), "greatest": round(max(ratios), 3),
                          "gflops": median(0, "gflops"), "share_of_peak": median(0, "share_of_peak"),
                          "predicted_ms": median(0, "predicted_ms"), **line}), flush=True)


if __name__ == "__main__":
    main()
