// `ocl`: the command.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>

#include "openclaw/core/logging.h"
#include "openclaw/launcher/commands.h"

namespace {

void AddExperiment(CLI::App* app, oc::ExperimentFlags& flags) {
  app->add_option("config", flags.config_path, "The experiment file (YAML)")->required();
  app->add_option("overrides", flags.overrides, "Settings over the file's, as optimizer.lr=3e-4");
  app->add_option("--run-dir", flags.run_dir, "Folder of the run (default: runs/NAME-TIME)");
  app->add_option("--amp-level", flags.amp_level, "Precision level: O0");
}

// Ends the process as the result says. Threads of a run that failed may still wait for peers that
// are gone: they are not joined.
[[noreturn]] void End(const oc::Status& status, int signal) {
  if (!status.ok()) OC_LOG_ERROR(std::string(status.message()));
  std::fflush(nullptr);
  std::_Exit(status.ok() ? (signal != 0 ? 128 + signal : 0) : 1);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"OpenClaw: trains a model over unlike devices as one well-balanced machine"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "ocl 0.1.0");
  oc::ExperimentFlags flags;

  CLI::App* train = app.add_subcommand("train", "Train a model");
  AddExperiment(train, flags);
  train->add_option("--plan", flags.plan_path, "Run this plan again, instead of planning");

  CLI::App* plan = app.add_subcommand("plan", "Plan without training, and print the plan");
  oc::PlanFlags plan_flags;
  AddExperiment(plan, flags);
  plan->add_option("--cluster", plan_flags.cluster_path, "Plan for the machines of this file");
  plan->add_option("--profile", plan_flags.profile_path, "Op costs, from an earlier run");
  plan->add_option("--json", plan_flags.json_path, "Write the plan to this file");
  plan->add_option("--svg", plan_flags.svg_path, "Draw the timeline of a step");

  CLI::App* eval = app.add_subcommand("eval", "Evaluate a checkpoint on the validation set");
  std::string checkpoint;
  AddExperiment(eval, flags);
  eval->add_option("--checkpoint", checkpoint, "Checkpoint folder (default: the run's newest)");

  CLI::App* generate = app.add_subcommand("generate", "Write text with a language model");
  oc::GenerateFlags generate_flags;
  AddExperiment(generate, flags);
  generate->add_option("--checkpoint", generate_flags.checkpoint,
                       "Checkpoint folder (default: the run's newest)");
  generate->add_option("--prompt", generate_flags.prompt, "Text to go on from");
  generate->add_option("--tokens", generate_flags.tokens, "How many to write");
  generate->add_option("--temperature", generate_flags.temperature, "0: the likeliest token");
  generate->add_option("--top-k", generate_flags.top_k, "Among the k likeliest; 0: all");
  generate->add_option("--seed", generate_flags.seed, "Of the choice of tokens");

  CLI11_PARSE(app, argc, argv);
  if (train->parsed()) {
    const oc::CommandResult result = oc::Train(flags);
    End(result.status, result.signal);
  }
  if (plan->parsed()) End(oc::PrintPlan(flags, plan_flags), 0);
  if (eval->parsed()) End(oc::EvaluateCheckpoint(flags, checkpoint), 0);
  End(oc::Generate(flags, generate_flags), 0);
}
