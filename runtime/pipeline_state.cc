// ElasticPipeline: initial values, checkpoints, reading variables.
#include <algorithm>
#include <cstring>

#include "openclaw/graph/initialize.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

// Of what a VCU holds of a variable: its own type, or that of a flat run of its elements.
TensorType HeldType(const StateEntry& e) {
  return e.whole() ? e.type : TensorType{e.type.dtype, {e.end - e.begin}};
}

// The bytes that a VCU holds, of the whole variable's.
std::span<std::byte> HeldIn(const StateEntry& e, std::span<std::byte> whole) {
  const int64_t size = SizeInBytes(e.type.dtype);
  return whole.subspan(static_cast<size_t>(e.begin * size),
                       static_cast<size_t>((e.end - e.begin) * size));
}

Status WriteState(Vcu& vcu, const StateEntry& e, std::span<const std::byte> bytes) {
  OC_RETURN_IF_ERROR(vcu.Write(e.range, bytes));
  return e.host_copy.bytes > 0 ? vcu.Write(e.host_copy, bytes) : OkStatus();
}

}  // namespace

Status ElasticPipeline::InitializeState() {
  for (const auto& vcu : cluster_.vcus()) {
    for (const StateEntry& e : program().vcus[vcu->index()].state) {
      Tensor value(HeldType(e));
      OC_RETURN_IF_ERROR(
          Annotate(Initialize(e.init, e.name, options_.seed, e.type, value.bytes(), e.begin),
                   absl::StrCat("initialise ", e.name)));
      OC_RETURN_IF_ERROR(WriteState(*vcu, e, value.bytes()));
    }
  }
  return OkStatus();
}

StatusOr<std::string> ElasticPipeline::Save(const std::string& dir, int keep,
                                            const std::string& config) {
  if (!failed_step_.ok()) return Annotate(failed_step_, "save: states may be of two steps");
  Job& job = cluster_.job();
  // Rank 0 makes the folder; its answer is the barrier.
  std::string begun = "ok";
  if (job.rank() == 0) {
    auto staging = BeginCheckpoint(dir, step_);
    if (!staging.ok()) begun = std::string(staging.status().message());
  }
  OC_ASSIGN_OR_RETURN(begun,
                      job.Broadcast(begun, 0, "checkpoint folder", options_.timeout_seconds));
  if (begun != "ok") return absl::UnavailableError(begun);

  std::vector<TensorSlice> slices;
  for (const auto& vcu : cluster_.vcus()) {
    for (const StateEntry& e : program().vcus[vcu->index()].state) {
      if (!e.owner) continue;
      slices.push_back(
          e.whole() ? TensorSlice{e.name, e.type, 0, NumRows(e.type.shape), vcu->view(e.range)}
                    : TensorSlice{e.name, e.type, e.begin, e.end, vcu->view(e.range), true});
      if (!slices.back().bytes.empty() || e.range.bytes == 0) continue;
      // Of memory that the host cannot see, one at a time.
      slices.back().read = [v = vcu.get(), range = e.range](std::span<std::byte> to) {
        return v->Read(to, range);
      };
    }
  }
  auto written = WriteShard(StagingPath(dir, step_), absl::StrCat("rank-", job.rank()), slices);
  // Everybody tells how it went, and the first failure is everybody's.
  OC_ASSIGN_OR_RETURN(auto texts,
                      job.AllGather(written.ok() ? written->ToJson()
                                                 : absl::StrCat("!", written.status().message()),
                                    "checkpoint shards", options_.timeout_seconds));
  std::vector<ShardInfo> shards;
  for (size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].empty() && texts[r][0] == '!') {
      return absl::UnavailableError(
          absl::StrCat("save checkpoint: rank ", r, ": ", texts[r].substr(1)));
    }
    OC_ASSIGN_OR_RETURN(ShardInfo info, ShardInfo::FromJson(texts[r]));
    if (!info.tensors.empty()) shards.push_back(std::move(info));
  }
  std::string result;
  if (job.rank() == 0) {
    Manifest manifest{.step = step_,
                      .seed = options_.seed,
                      .data = {.samples = step_ * global_batch(),
                               .dataset_size = dataset_ == nullptr ? 0 : dataset_->size()},
                      .optimizer = optimizer_.name(),
                      .schedule = optimizer_.options().schedule.name,
                      .plan = plan().ToJson(),
                      .config = config};
    if (scaler_.has_value()) manifest.loss_scale = scaler_->state();
    auto path = CommitCheckpoint(dir, std::move(manifest), shards, keep);
    result = path.ok() ? *path : absl::StrCat("!", path.status().message());
  }
  OC_ASSIGN_OR_RETURN(result, job.Broadcast(result, 0, "checkpoint", options_.timeout_seconds));
  if (!result.empty() && result[0] == '!') return absl::UnavailableError(result.substr(1));
  return result;
}

Status ElasticPipeline::ReadState(const Checkpoint& checkpoint, ReadWhat what) {
  const std::string& path = checkpoint.path();
  // An average is that of the first step on.
  const bool averages = what == ReadWhat::kAverages && checkpoint.manifest().step > 0;
  for (const auto& vcu : cluster_.vcus()) {
    for (const StateEntry& e : program().vcus[vcu->index()].state) {
      if (what != ReadWhat::kAll && !e.is_parameter && !e.is_model_state) continue;
      const std::string name = averages && e.is_parameter ? "ema." + e.name : e.name;
      const StoredTensor* stored = checkpoint.manifest().Find(name);
      if (stored == nullptr) {
        return InvalidArgument(
            "load ", path, ": it holds no ", name,
            averages && e.is_parameter ? "; the run kept no moving averages (optimizer.ema)" : "");
      }
      if (!(stored->type == e.type)) {
        return InvalidArgument("load ", path, ": ", name, " is ", stored->type.ToString(),
                               ", the model has ", e.type.ToString());
      }
      Tensor value(HeldType(e));
      OC_RETURN_IF_ERROR(checkpoint.ReadElements(name, e.begin, e.end, value.bytes()));
      OC_RETURN_IF_ERROR(WriteState(*vcu, e, value.bytes()));
    }
  }
  return OkStatus();
}

Status ElasticPipeline::LoadModel(const std::string& path, bool ema) {
  OC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
  return ReadState(checkpoint, ema ? ReadWhat::kAverages : ReadWhat::kModel);
}

Status ElasticPipeline::Load(const std::string& path) {
  OC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
  OC_RETURN_IF_ERROR(ReadState(checkpoint, ReadWhat::kAll));
  const Manifest& manifest = checkpoint.manifest();
  if (manifest.seed != options_.seed) {
    return InvalidArgument("load ", path, ": it was trained with seed ", manifest.seed,
                           ", this run has seed ", options_.seed,
                           "; data order and dropout would not go on as they were");
  }
  if (manifest.data.samples % global_batch() != 0) {
    return InvalidArgument("load ", path, ": ", manifest.data.samples,
                           " samples were consumed, which is no multiple of the global batch ",
                           global_batch());
  }
  step_ = manifest.step;
  if (manifest.data.samples / global_batch() != step_) {
    return InvalidArgument("load ", path, ": step ", step_, " after ", manifest.data.samples,
                           " samples does not fit a global batch of ", global_batch());
  }
  if (scaler_.has_value() && manifest.loss_scale.has_value()) {
    OC_RETURN_IF_ERROR(
        Annotate(scaler_->Restore(*manifest.loss_scale), absl::StrCat("load ", path)));
  }
  loader_.reset();
  return OkStatus();
}

Status ElasticPipeline::LoadWeights(const std::string& path) {
  OC_ASSIGN_OR_RETURN(const SafetensorsReader weights, SafetensorsReader::Open(path));
  for (const auto& vcu : cluster_.vcus()) {
    for (const StateEntry& e : program().vcus[vcu->index()].state) {
      if ((e.is_parameter || e.is_model_state) && weights.Find(e.name) == nullptr) {
        return InvalidArgument("load weights ", path, ": it holds no ", e.name);
      }
    }
  }
  return LoadWeights(weights);
}

Status ElasticPipeline::LoadWeights(const SafetensorsReader& weights) {
  for (const auto& vcu : cluster_.vcus()) {
    for (const StateEntry& e : program().vcus[vcu->index()].state) {
      if (!e.is_parameter && !e.is_model_state) continue;
      const SafetensorsEntry* stored = weights.Find(e.name);
      if (stored == nullptr) continue;
      if (!(stored->type.shape == e.type.shape)) {
        return InvalidArgument("load weights ", weights.path(), ": ", e.name, " is ",
                               stored->type.ToString(), ", the model has ", e.type.ToString());
      }
      OC_ASSIGN_OR_RETURN(Tensor value, weights.Read(e.name));
      if (value.dtype() != e.type.dtype) {
        Tensor converted(e.type);
        for (int64_t i = 0; i < value.num_elements(); ++i) converted.set(i, value.at(i));
        value = std::move(converted);
      }
      OC_RETURN_IF_ERROR(WriteState(*vcu, e, HeldIn(e, value.bytes())));
    }
  }
  return OkStatus();
}

Status ElasticPipeline::CheckGradients() const {
  switch (step_arena_) {
    case StepArena::kTraining:
      return OkStatus();
    case StepArena::kNothing:
      return FailedPrecondition("gradients are those of the last training step; ",
                                "none has ended well: read after Step");
    case StepArena::kInference:
      return FailedPrecondition("gradients are those of the last training step; an evaluation ",
                                "since then overwrote them: read before Evaluate or Forward");
  }
  return Internal("unknown contents of a step arena");
}

StatusOr<Tensor> ElasticPipeline::ReadVariable(const std::string& name) const {
  std::optional<Tensor> value;
  int64_t missing = 0;  // elements, where several VCUs hold parts
  for (const auto& vcu : cluster_.vcus()) {
    const VcuProgram& p = program().vcus[vcu->index()];
    for (const auto* list : {&p.state, &p.gradients}) {
      for (const StateEntry& e : *list) {
        if (e.name != name) continue;
        if (list == &p.gradients) {
          OC_RETURN_IF_ERROR(Annotate(CheckGradients(), absl::StrCat("read variable ", name)));
        }
        if (!value.has_value()) {
          value.emplace(e.type);
          missing = e.type.shape.num_elements();
        }
        OC_RETURN_IF_ERROR(vcu->Read(HeldIn(e, value->bytes()), e.range));
        missing -= e.end - e.begin;
        if (missing <= 0) return *std::move(value);
      }
    }
  }
  if (value.has_value()) {
    return InvalidArgument("read variable ", name, ": other processes hold ", missing, " of its ",
                           value->num_elements(), " elements (parallel.shard ", plan().shard, ")");
  }
  return InvalidArgument("read variable ", name, ": no VCU of this process holds it");
}

}  // namespace oc
