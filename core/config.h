// The experiment, as plain structs with defaults. The launcher fills them from YAML; the C++ API
// takes them as they are. Names are those of the YAML keys. `auto` is an empty optional.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/status.h"

namespace oc {

// Which model. Keys that a model does not take are errors of the model's builder (graph/models).
struct ModelConfig {
  std::string name;     // "mlp", "lenet", "resnet", "gpt2", "llama"; empty with preset or graph
  std::string preset;   // "gpt2-124m", ...
  std::string graph;    // a .oc file
  std::string weights;  // a .safetensors file with initial values
  std::map<std::string, int64_t> ints;                // layers, width, heads, context, classes, ...
  std::map<std::string, double> doubles;              // dropout, ...
  std::map<std::string, std::string> strings;         // stem, ...
  std::map<std::string, std::vector<int64_t>> lists;  // hidden
};

struct DataConfig {
  std::string format;              // "text", "tokens", "idx"
  std::vector<std::string> train;  // text, tokens: files
  std::vector<std::string> validation;
  std::string train_images, train_labels;  // idx
  std::string validation_images, validation_labels;
  int workers = 1;
};

struct TrainConfig {
  std::optional<int64_t> steps;  // exactly one of steps and epochs
  std::optional<double> epochs;
  int64_t micro_batch = 32;
  std::optional<int64_t> global_batch;
  uint64_t seed = 1;
  int64_t evaluate_every = 0;  // 0: only at the end
  bool deterministic = false;
  bool capture = true;  // on devices that can
};

// Steps count from the run's first. Which keys a schedule takes stands in optim/learning_rate.h.
struct ScheduleConfig {
  std::string name = "constant";  // constant, linear, cosine, polynomial, wsd, step
  int64_t warmup_steps = 0;
  double final_ratio = 0.0;            // last learning rate over the first
  double power = 1.0;                  // polynomial
  std::optional<int64_t> decay_steps;  // wsd: how long the decay at the end is; or as a share
  double decay_ratio = 0.1;            // of the run
  std::string decay_shape = "linear";  // wsd: linear, cosine, sqrt
  std::optional<int64_t> step_size;    // step: one of these
  std::optional<std::vector<int64_t>> milestones;
  double gamma = 0.1;  // step: the factor at each
};

// Parameters that differ from the others. Each belongs to the first group that it matches.
struct ParameterGroup {
  std::string name;                    // for messages; empty: the patterns
  std::vector<std::string> match;      // names of parameters; * is any text, ? any character
  double lr_scale = 1.0;               // of the learning rate
  std::optional<double> weight_decay;  // instead of the optimizer's
  bool decay_all = false;              // weight decay also on biases and norms
  std::optional<bool> use_muon;        // muon: whether it takes these matrices
};

// Moving averages of the parameters.
struct EmaConfig {
  double decay = 0.999;
};

// muon: of what it does not take.
struct AuxiliaryAdamWConfig {
  double lr = 3e-4;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.0;
};

// Which keys an optimizer takes, and their defaults, stand in optim/NAME.h: optim/optimizer.h has
// DefaultConfig. Those here are adamw's.
struct OptimizerConfig {
  std::string name = "adamw";  // sgd, adam, adamw, lamb, adafactor, lion, muon
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  double beta2_decay = -0.8;  // adafactor, as the next three
  double eps1 = 0x1p-23;
  double eps2 = 1e-3;
  double d = 1.0;
  int64_t ns_steps = 5;  // muon, as the next three
  std::vector<double> ns_coefficients = {3.4445, -4.7750, 2.0315};
  std::string adjust_lr_fn = "original";
  AuxiliaryAdamWConfig adamw;
  std::optional<double> clip_norm;   // the gradient's norm over all parameters
  std::optional<double> clip_value;  // each of its elements, after clip_norm
  ScheduleConfig schedule;
  std::vector<ParameterGroup> groups;
  std::optional<EmaConfig> ema;
};

enum class AmpLevel { kO0, kO1, kO2, kO3, kO2Fp8 };
const char* Name(AmpLevel level);
// What the loss is multiplied by before the backward (optim/loss_scaler.h).
struct LossScaleConfig {
  // kAuto: dynamic where something computes in f16, else 1.
  enum class Mode { kAuto, kDynamic, kFixed };
  Mode mode = Mode::kAuto;
  double value = 65536;            // kFixed: the scale; kDynamic: the first one
  int64_t growth_interval = 2000;  // kDynamic: doubled after so many steps without an overflow
};
struct PrecisionConfig {
  // auto: of O0, O1 and O2, whose parameters are f32, what the devices have and is predicted
  // fastest.
  std::optional<AmpLevel> amp_level = AmpLevel::kO0;
  DType dtype = DType::kBF16;  // the half type, from O1 on
  LossScaleConfig loss_scale;
};

enum class AllReduce { kAuto, kRing, kTree, kHybrid };
const char* Name(AllReduce algorithm);
struct CommConfig {
  std::optional<int64_t> gradient_accumulation;
  AllReduce allreduce_algorithm = AllReduce::kAuto;
  std::optional<int64_t> pipeline_depth;
  double timeout_seconds = 30;  // of every blocking call
};

// What a VCU's activations may take at any time, besides its memory. Neither: no limit of their
// own.
struct ActivationBudget {
  std::optional<double> percent;  // of what they take where nothing is computed again
  std::optional<int64_t> bytes;
  bool any() const { return percent.has_value() || bytes.has_value(); }
};

// What lies outside of the VCUs' own memory between its uses.
struct OffloadConfig {
  // The optimizer's states and moving averages. none; host: in memory of the host, of VCUs whose
  // memory is apart from it; file: in a file; auto: of the VCUs that cannot hold them, in memory of
  // the host where theirs is apart, else in a file where there is a path.
  std::string optimizer = "none";
  std::string path;  // file: the folder that the files are made in
  // Where states that lie with the host are updated: auto (what is faster), device, host.
  std::string update = "auto";
  // What backward needs of forward, of these modules (patterns; * is any text, ? any character), or
  // the word auto alone: where memory is short, what costs less to move than to compute again. Of
  // VCUs whose memory is apart from the host's. Empty: none.
  std::vector<std::string> activations;
};

struct ParallelConfig {
  std::optional<int64_t> data_parallel;
  std::string schedule = "auto";  // auto, gpipe, 1f1b, interleaved, zb-h1, zb-v
  // Computed again in backward instead of being kept: auto, none, marked, full; or modules, which
  // come first.
  std::string recompute = "auto";
  std::vector<std::string> recompute_modules;  // names or patterns
  ActivationBudget activation_budget;          // recompute: auto keeps to it
  std::optional<int> shard = 0;                // ZeRO stage; auto: the fastest that fits
  std::string shard_by = "equal";              // memory, speed: what the parts are as large as
  std::vector<std::string> stages;             // modules to cut after; empty: auto
  std::string balance = "measured";            // measured, even: how unlike VCUs share the work
  OffloadConfig offload;
};

struct ClusterEntry {
  std::string device;        // cpu, reference, ...
  int cores = 0;             // 0: an even share
  int64_t memory_bytes = 0;  // 0: an even share of what is free
  // What only this kind of device takes; in YAML a map under the device's name.
  std::map<std::string, std::string> options;
};
struct ClusterConfig {
  std::string file;                   // a cluster file; empty with entries or for auto
  std::vector<ClusterEntry> entries;  // empty: auto
  // Shared libraries with more kinds of device (devices/openclaw_device.h); the YAML key `plugins`.
  std::vector<std::string> plugins;
};

struct CheckpointConfig {
  int64_t every = 0;  // steps; 0: only at the end
  int keep = 3;
  std::string resume = "auto";  // auto, none, or a checkpoint folder
};

struct LogConfig {
  int64_t every = 1;
  bool tensorboard = true;
};

struct ExperimentConfig {
  std::string name;  // from the file's name where not given
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  PrecisionConfig precision;
  CommConfig comm_options;
  ParallelConfig parallel;
  ClusterConfig cluster;
  CheckpointConfig checkpoint;
  LogConfig log;
};

}  // namespace oc
