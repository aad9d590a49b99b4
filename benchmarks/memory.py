#!/usr/bin/env python3
"""Trains a few steps of one experiment with everything kept, with recomputation, with offload, and with state
divided over ranks, and prints predicted and achieved peaks beside each other: of the arenas (the VCU that needs
most), of the processes, and what a step took beside the plain run's.

    python3 memory.py gpt2.yaml [--micro-batch 8] [--ranks 2 4] [--ranks-micro-batch 2] [--steps 3] [key.path=value ...]

Ranks run under mpirun, each with one VCU; steps of more ranks than the machine has cores say nothing of speed.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20


def cases(args, scratch):
    one = ["train.micro_batch=%d" % args.micro_batch, "parallel.data_parallel=1"]
    yield "plain", 1, one + ["parallel.recompute=none"]
    yield "recompute within 40 %", 1, one + ["parallel.recompute=auto", "parallel.activation_budget=40%"]
    yield "recompute full", 1, one + ["parallel.recompute=full"]
    yield "optimizer in a file", 1, one + ["parallel.recompute=none", "parallel.offload.optimizer=file",
                                           "parallel.offload.path=" + scratch]
    for ranks in args.ranks:
        for shard in range(4):
            yield "shard %d, %d ranks" % (shard, ranks), ranks, [
                "train.micro_batch=%d" % args.ranks_micro_batch, "parallel.data_parallel=%d" % ranks,
                "parallel.recompute=none", "parallel.shard=%d" % shard]


def train(args, ranks, overrides, run, profile):
    """`profile`: op costs that earlier runs measured are taken from this file, and kept there."""
    os.makedirs(run)
    if os.path.exists(profile):
        shutil.copy(profile, os.path.join(run, "profile.json"))
    command = [args.ocl, "train", args.config, "--run-dir", run, "train.steps=%d" % args.steps, "log.every=1",
               "log.tensorboard=false", "comm_options.pipeline_depth=1",
               "comm_options.timeout_seconds=600"] + overrides + args.overrides
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] + (
            ["--allow-run-as-root"] if os.geteuid() == 0 else []) + command
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit("failed: " + " ".join(command) + "\n" + done.stdout[-3000:])
    shutil.copy(os.path.join(run, "profile.json"), profile)
    with open(os.path.join(run, "metrics.jsonl")) as lines:
        entries = [json.loads(line) for line in lines]
    return [e["step_seconds"] for e in entries if "step" in e], entries[-1]["summary"]


def pair(items, kind):
    """Of the item that needs most, by prediction."""
    most = max(items, key=lambda item: item["predicted_" + kind])
    return most["predicted_" + kind], most["achieved_" + kind]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--ocl", default=os.path.join(HERE, "..", "build", "bin", "ocl"))
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a micro-batch on one VCU")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--ranks-micro-batch", type=int, default=2, help="and on each of several ranks")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    args = parser.parse_args()
    print("%-24s %25s %31s %17s" % ("", "arenas MiB (pred/ach)", "largest process MiB (pred/ach)", "step s (of plain)"))
    plain, worst = None, [0, 0]
    with tempfile.TemporaryDirectory() as scratch:
        for name, ranks, overrides in cases(args, scratch):
            if args.only not in name:
                continue
            times, summary = train(args, ranks, overrides, os.path.join(scratch, name.replace(" ", "-")),
                                   os.path.join(scratch, "profile.json"))
            seconds = statistics.median(times[1:] or times)
            if name == "plain":
                plain = seconds
            arenas, process = pair(summary["vcus"], "peak_bytes"), pair(summary["processes"], "bytes")
            of_plain = " (%.2f)" % (seconds / plain) if plain and ranks == 1 else ""
            print("%-24s %12.2f /%11.2f %15.1f /%14.1f %11.2f%s" % (
                name, arenas[0] / MIB, arenas[1] / MIB, process[0] / MIB, process[1] / MIB, seconds, of_plain), flush=True)
            for i, (predicted, achieved) in enumerate((arenas, process)):
                worst[i] = max(worst[i], abs(achieved / predicted - 1))
    print("furthest from predicted: arenas %.2f %%, processes %.2f %%" % (100 * worst[0], 100 * worst[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
