// Experiment files: YAML <-> core/config.h, checked key by key.
//
//   OC_ASSIGN_OR_RETURN(ExperimentConfig config,
//                       LoadConfig("examples/gpt_text.yaml", {"optimizer.lr=3e-4"}));
//   OC_RETURN_IF_ERROR(CheckBuilt(config));
//
// All errors of a file are reported together, one a line, each with file and line, the key's path,
// the value, and what would be allowed; an unknown key with the nearest known one.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/config.h"
#include "openclaw/core/status.h"

namespace oc {

// Reads the experiment file at `path` and applies `overrides`, each `key.path=value` with the value
// in YAML (a number in the path picks an item of a list: cluster.0.memory=2GiB). An override
// replaces the key's whole value. Of a pair that excludes each other (train.steps and train.epochs;
// model.name, model.preset and model.graph), an override of one drops the other from the file.
//
// Relative paths of data, weights, graphs and cluster files are relative to the working directory;
// what is not there but exists beside the experiment file is taken from there.
//
// `train.micro_batch: auto` becomes a number: what train.global_batch leaves for it, where the
// accumulation is given, else the largest divisor of that up to 32.
//
// kFailedPrecondition: the file cannot be read. kInvalidArgument: everything else.
StatusOr<ExperimentConfig> LoadConfig(const std::string& path,
                                      const std::vector<std::string>& overrides = {});

// The same from a text, with `source` in place of the file's name in messages. Paths stay as they
// are, and `name` stays empty where the text does not give it.
StatusOr<ExperimentConfig> ParseConfig(const std::string& text, const std::string& source,
                                       const std::vector<std::string>& overrides = {});

// The canonical text: every key written out, always in one order. ParseConfig gives the same
// configuration back, and equal texts mean equal configurations.
std::string FormatConfig(const ExperimentConfig& config);

// Of the canonical text; equal on all ranks of a job, or they do not run the same experiment.
uint64_t ConfigHash(const ExperimentConfig& config);

// What differs, as "optimizer.lr 0.1 vs 0.2, train.seed 1 vs 2"; empty where nothing does. A key
// that one of them lacks reads "(unset)".
std::string ConfigDiff(const ExperimentConfig& a, const ExperimentConfig& b);

// kUnimplemented for the first value that an experiment file may hold and that nothing is built for
// yet; it names the key, the value, and the values that are built.
Status CheckBuilt(const ExperimentConfig& config);

}  // namespace oc
