#include "model/model.h"

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "model/bind_weights.h"
#include "model/families/family.h"
#include "model/model_state.h"

namespace cheetah {
namespace {

// One id or a list of them.
std::vector<int32_t> token_ids(const Json& config, std::string_view name, int64_t vocab) {
  std::vector<int32_t> ids;
  const auto add = [&](const Json& value) {
    if (value.is_number_integer() && value >= 0 && value < vocab) ids.push_back(value.get<int32_t>());
  };
  const auto at = config.find(name);
  if (at == config.end()) return ids;
  if (at->is_array())
    for (const Json& value : *at) add(value);
  else
    add(*at);
  return ids;
}

void read_special_ids(const Checkpoint& checkpoint, ModelTraits& traits) {
  for (const Json* config : {&checkpoint.generation_config(), &checkpoint.config()}) {
    if (traits.eos_ids.empty()) traits.eos_ids = token_ids(*config, "eos_token_id", traits.vocab);
    const std::vector<int32_t> bos = token_ids(*config, "bos_token_id", traits.vocab);
    if (traits.bos_id < 0 && !bos.empty()) traits.bos_id = bos.front();
  }
}

// weight_block_size of an FP8 checkpoint.
void read_fp8_block(const Json& config, WeightSource& source) {
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return;
  const auto block = quantization->find("weight_block_size");
  if (block == quantization->end()) return;
  const auto valid = [](const Json& side) {
    return side.is_number_integer() && side >= 1 && side <= (1 << 20);
  };
  if (!block->is_array() || block->size() != 2 || !valid((*block)[0]) || !valid((*block)[1]))
    throw Error(format("{}: field \"weight_block_size\" is {}, expected two positive numbers", source.what,
                       printable(dump_json(*block))));
  source.fp8_rows = (*block)[0].get<int64_t>();
  source.fp8_cols = (*block)[1].get<int64_t>();
}

void load_hugging_face(const LoadOptions& options, ThreadPool& pool, Checkpoint& checkpoint,
                       ModelTraits& traits, ModelWeights& weights) {
  const std::string config_path = checkpoint.path() + "/config.json";
  FamilyModel model = read_family(checkpoint.config(), config_path);
  WeightSource source{.tensors = checkpoint.tensors(), .what = checkpoint.path()};
  read_fp8_block(checkpoint.config(), source);
  traits = std::move(model.traits);
  read_special_ids(checkpoint, traits);
  weights = bind_weights(traits, model.names, source, options, pool);
}

std::string name_of_path(const std::string& path) {
  std::filesystem::path p = std::filesystem::path(path).lexically_normal();
  if (p.filename().empty()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

}  // namespace

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const std::string& path, const LoadOptions& options) {
  auto state = std::make_unique<State>();
  state->name = name_of_path(path);
  state->checkpoint.emplace(Checkpoint::open(path));
  state->checkpoint->prefetch();
  ThreadPool pool;
  load_hugging_face(options, pool, *state->checkpoint, state->traits, state->weights);
  if (options.show_progress)
    for (const std::string& note : state->weights.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

const std::string& Model::name() const { return state_->name; }
const ModelTraits& Model::traits() const { return state_->traits; }
const ModelWeights& Model::weights() const { return state_->weights; }
int64_t Model::num_parameters() const { return count_parameters(weights(), traits()); }
int64_t Model::weight_bytes() const { return count_weight_bytes(weights(), traits()); }
int64_t Model::decode_bytes() const { return count_decode_bytes(weights(), traits()); }
const Tokenizer* Model::tokenizer() const { return state_->tokenizer.get(); }
std::string Model::bos_token() const { return state_->bos_token; }
std::string Model::eos_token() const { return state_->eos_token; }

}  // namespace cheetah
