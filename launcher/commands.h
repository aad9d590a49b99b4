// The commands of `ocl`. Each returns the process's exit code's cause: ok is 0; SIGINT and SIGTERM,
// once the run is saved, end with 130 and 143.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/launcher/experiment.h"

namespace oc {

struct CommandResult {
  Status status;
  int signal = 0;  // the one that ended the run
};

// Trains; see docs/training.md for the files of a run folder.
CommandResult Train(const ExperimentFlags& flags);

struct PlanFlags {
  std::string cluster_path;  // machines that need not be there; empty: this one
  std::string profile_path;  // op costs; what it lacks is measured here and added
  std::string json_path;
  std::string svg_path;
  bool memory = false;  // print what each VCU's memory is used for
};
// Plans without training and prints the plan.
Status PrintPlan(const ExperimentFlags& flags, const PlanFlags& plan);

// Loss and accuracy of a checkpoint over the validation set; of its moving averages with `ema`.
Status EvaluateCheckpoint(const ExperimentFlags& flags, const std::string& checkpoint, bool ema);

struct GenerateFlags {
  std::string checkpoint;
  bool ema = false;  // with the moving averages of the weights
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: the likeliest token
  int64_t top_k = 40;        // 0: all
  uint64_t seed = 1;
};
// Writes text from a language model, token after token; every token runs the whole context anew.
Status Generate(const ExperimentFlags& flags, const GenerateFlags& generate);

struct DoctorFlags {
  bool parity = false;  // compare the devices with each other, instead of examining the machine
  std::vector<std::string> plugins, devices;
  bool mpi = false;  // must be there
  std::string json_path;
};
// Examines this machine, or compares its devices, and prints what it found. kFailedPrecondition
// where something that was asked for is broken, or devices differ by more than is allowed.
Status RunDoctor(const DoctorFlags& flags);

// The checkpoint that a command means: as given, or the newest of the run folder.
StatusOr<std::string> FindCheckpoint(const std::string& given, const std::string& run_dir);

}  // namespace oc
