#!/usr/bin/env python3
"""Trains one experiment at every level of mixed precision, the same data in the same order, and prints the
loss curves beside each other, then one JSON line a level: final loss (mean of the last steps' losses, and that
of the validation), its distance from O0's, and how much faster a step was.

    python3 precision.py examples/gpt_text.yaml [--last 20] [--rows 12] [key.path=value ...]
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = [("O0", "bf16"), ("O1", "bf16"), ("O2", "bf16"), ("O2", "f16"), ("O3", "bf16")]


def train(ocl, config, level, dtype, overrides):
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [ocl, "train", config, "--run-dir", run, "--amp-level", level, "precision.dtype=" + dtype,
                   "log.every=1", "log.tensorboard=false"] + overrides
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit("failed: " + " ".join(command) + "\n" + done.stdout[-2000:])
        with open(os.path.join(run, "metrics.jsonl")) as lines:
            entries = [json.loads(line) for line in lines]
    return [e for e in entries if "step" in e], entries[-1]["summary"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--ocl", default=os.path.join(HERE, "..", "build", "bin", "ocl"))
    parser.add_argument("--last", type=int, default=20, help="steps that the final loss is a mean of")
    parser.add_argument("--rows", type=int, default=12, help="of the table of losses")
    args = parser.parse_args()
    runs = [train(args.ocl, args.config, level, dtype, args.overrides) for level, dtype in LEVELS]
    names = [level if level == "O0" else f"{level} {dtype}" for level, dtype in LEVELS]
    steps = len(runs[0][0])
    print("  step " + "".join(f"{name:>10}" for name in names))
    for row in range(args.rows):
        at = (steps - 1) * row // max(1, args.rows - 1)
        print(f"{at + 1:6d} " + "".join(f"{run[0][at]['loss'] or float('nan'):10.4f}" for run in runs))
    seconds = [statistics.median(e["step_seconds"] for e in run[0][2:]) for run in runs]
    final = [statistics.mean(e["loss"] for e in run[0][-args.last:]) for run in runs]
    for i, name in enumerate(names):
        summary = runs[i][1]
        line = {"level": name, "final_loss": round(final[i], 5), "over_o0_percent": round(100 * (final[i] / final[0] - 1), 3),
                "validation_loss": summary.get("validation_loss"), "step_ms": round(seconds[i] * 1e3, 3),
                "speed_over_o0": round(seconds[0] / seconds[i], 3), "last_loss_scale": runs[i][0][-1]["loss_scale"],
                "scale_changes": sum(a["loss_scale"] != b["loss_scale"] for a, b in zip(runs[i][0], runs[i][0][1:]))}
        if "validation_accuracy" in summary:
            line["validation_accuracy"] = summary["validation_accuracy"]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
