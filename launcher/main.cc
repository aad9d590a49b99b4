// `ocl`: the command.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>

#include "openclaw/core/logging.h"
#include "openclaw/devices/call_watch.h"
#include "openclaw/launcher/commands.h"

namespace {

void AddExperiment(CLI::App* app, oc::ExperimentFlags& flags, const char* run_dir) {
  app->add_option("config", flags.config_path, "The experiment file (YAML)")
      ->required()
      ->type_name("FILE");
  app->add_option("overrides", flags.overrides, "Keys over the file's, as optimizer.lr=3e-4")
      ->type_name("KEY=VALUE");
  app->add_option("--run-dir", flags.run_dir, run_dir)->type_name("DIR");
  app->add_option("--amp-level", flags.amp_level,
                  "Over the file's precision.amp_level: O0 (f32), O1 (casts around listed ops), O2 "
                  "(half with "
                  "f32 master weights), O3 (all half)")
      ->type_name("LEVEL");
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
  oc::InstallCrashReports();
  CLI::App app{"OpenClaw: trains a model over unlike devices as one well-balanced machine"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "ocl 0.1.0");
  oc::ExperimentFlags flags;

  CLI::App* train = app.add_subcommand("train", "Train a model");
  AddExperiment(train, flags,
                "Folder of the run (default: runs/NAME-TIME); an earlier run's goes on from its "
                "newest checkpoint");
  train->add_option("--plan", flags.plan_path, "Run this plan again, instead of planning")
      ->type_name("FILE");
  train->footer(
      "Alone, or as one rank under mpirun or srun. SIGINT and SIGTERM save the step that runs and\n"
      "end with exit code 130 and 143.");

  CLI::App* plan = app.add_subcommand("plan", "Plan without training, and print the plan");
  oc::PlanFlags plan_flags;
  AddExperiment(plan, flags, "Folder of an earlier run: its profile.json is the profile");
  plan->add_option("--cluster", plan_flags.cluster_path,
                   "Plan for the machines of this file (YAML), which need not be there")
      ->type_name("FILE");
  plan->add_option("--profile", plan_flags.profile_path,
                   "Op costs, a profile.json; what it lacks is measured here and added")
      ->type_name("FILE");
  plan->add_option("--json", plan_flags.json_path, "Write the plan, for ocl train --plan")
      ->type_name("FILE");
  plan->add_flag("--memory", plan_flags.memory,
                 "Print what each VCU's memory is used for; --json has it as well");
  plan->add_option("--svg", plan_flags.svg_path, "Draw the predicted timeline of a step")
      ->type_name("FILE");

  CLI::App* eval = app.add_subcommand("eval", "Evaluate a checkpoint on the validation set");
  std::string checkpoint;
  const char* const checkpoint_help = "Checkpoint folder (default: the newest of --run-dir)";
  const char* const run_help = "Folder of the run whose newest checkpoint and op costs are taken";
  AddExperiment(eval, flags, run_help);
  eval->add_option("--checkpoint", checkpoint, checkpoint_help)->type_name("DIR");
  bool ema = false;
  const char* const ema_help = "Use the moving averages of the weights (optimizer.ema)";
  eval->add_flag("--ema", ema, ema_help);

  CLI::App* generate = app.add_subcommand("generate", "Write text with a language model");
  oc::GenerateFlags generate_flags;
  AddExperiment(generate, flags, run_help);
  generate->add_option("--checkpoint", generate_flags.checkpoint, checkpoint_help)
      ->type_name("DIR");
  generate->add_flag("--ema", generate_flags.ema, ema_help);
  generate->add_option("--prompt", generate_flags.prompt, "Text to go on from")->type_name("TEXT");
  generate->add_option("--tokens", generate_flags.tokens, "How many to write")
      ->type_name("N")
      ->capture_default_str();
  generate
      ->add_option("--temperature", generate_flags.temperature,
                   "Spread of the choice; 0: the likeliest token")
      ->type_name("T")
      ->capture_default_str();
  generate->add_option("--top-k", generate_flags.top_k, "Among the k likeliest; 0: among all")
      ->type_name("K")
      ->capture_default_str();
  generate->add_option("--seed", generate_flags.seed, "Of the choice of tokens")
      ->type_name("N")
      ->capture_default_str();

  CLI::App* doctor =
      app.add_subcommand("doctor", "Examine this machine and its devices; a remedy for each fault");
  oc::DoctorFlags doctor_flags;
  doctor->add_flag("--parity", doctor_flags.parity,
                   "Compare every op and small trainings between all kinds of device instead");
  doctor->add_option("--plugins", doctor_flags.plugins, "Device plugins, by file")
      ->type_name("FILE");
  doctor
      ->add_option("--devices", doctor_flags.devices,
                   "Only these leaves (cpu, opencl, ...), which must be there")
      ->type_name("LEAF");
  doctor->add_flag("--mpi", doctor_flags.mpi, "MPI must be there");
  doctor->add_option("--json", doctor_flags.json_path, "Write what was found")->type_name("FILE");

  CLI11_PARSE(app, argc, argv);
  if (train->parsed()) {
    const oc::CommandResult result = oc::Train(flags);
    End(result.status, result.signal);
  }
  if (plan->parsed()) End(oc::PrintPlan(flags, plan_flags), 0);
  if (eval->parsed()) End(oc::EvaluateCheckpoint(flags, checkpoint, ema), 0);
  if (doctor->parsed()) End(oc::RunDoctor(doctor_flags), 0);
  End(oc::Generate(flags, generate_flags), 0);
}
