// SPDX-License-Identifier: MIT
#include "model/model.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "model/bind_weights.h"
#include "model/families/family.h"
#include "model/families/gguf_config.h"
#include "model/files/hub_cache.h"
#include "model/model_header.h"
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

void read_gguf_special_ids(const GgufFile& file, ModelTraits& traits) {
  const auto read = [&](std::string_view key) -> std::optional<int32_t> {
    const auto id = file.integer(key);
    return id && *id >= 0 && *id < traits.vocab ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
  };
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (const auto id = read(key); id && !std::ranges::count(traits.eos_ids, *id))
      traits.eos_ids.push_back(*id);
  traits.bos_id = read("tokenizer.ggml.bos_token_id").value_or(-1);
}

// "weight_block_size" of an fp8 checkpoint, "block_structure" of a compressed-tensors one.
const Json* find_fp8_block(const Json& quantization) {
  const auto block = quantization.find("weight_block_size");
  if (block != quantization.end()) return &*block;
  const auto groups = quantization.find("config_groups");
  if (groups == quantization.end() || !groups->is_object()) return nullptr;
  for (const Json& group : *groups) {
    const auto weights = group.find("weights");
    if (weights == group.end() || !weights->is_object()) continue;
    const auto structure = weights->find("block_structure");
    if (structure != weights->end() && !structure->is_null()) return &*structure;
  }
  return nullptr;
}

void read_fp8_block(const Json& config, WeightSource& source) {
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return;
  const Json* block = find_fp8_block(*quantization);
  if (!block || block->is_null()) return;
  const auto valid = [](const Json& side) {
    return side.is_number_integer() && side >= 1 && side <= (1 << 20);
  };
  if (!block->is_array() || block->size() != 2 || !valid((*block)[0]) || !valid((*block)[1]))
    throw Error(format("{}: the block of an FP8 scale is {}, expected two positive numbers", source.what,
        printable(dump_json(*block))));
  source.fp8_rows = (*block)[0].get<int64_t>();
  source.fp8_cols = (*block)[1].get<int64_t>();
}

}  // namespace

FamilyModel describe_model(const Checkpoint& checkpoint) {
  if (const GgufFile* gguf = checkpoint.gguf()) {
    FamilyModel model = read_gguf_family(*gguf);
    read_gguf_special_ids(*gguf, model.traits);
    return model;
  }
  FamilyModel model = read_family(checkpoint.config(), checkpoint.path() + "/config.json");
  read_special_ids(checkpoint, model.traits);
  return model;
}

std::string model_name(const std::string& path) {
  if (std::string repository = hub_name_of(path); !repository.empty()) return repository;
  std::filesystem::path p = std::filesystem::path(path).lexically_normal();
  if (p.filename().empty()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const std::string& path, const LoadOptions& options) {
  auto state = std::make_unique<State>();
  state->name = model_name(path);
  state->checkpoint.emplace(Checkpoint::open(path));
  state->checkpoint->prefetch();
  FamilyModel model = describe_model(*state->checkpoint);
  state->traits = std::move(model.traits);
  ThreadPool pool;
  state->unpacked = unpack_tensors(*state->checkpoint, pool);
  WeightSource source{.tensors = state->unpacked.tensors, .what = path};
  read_fp8_block(state->checkpoint->config(), source);
  state->weights = bind_weights(state->traits, model.names, source, options, pool);
  state->weights.notes.insert(
      state->weights.notes.begin(), state->unpacked.notes.begin(), state->unpacked.notes.end());
  state->read_text_side();
  if (state->checkpoint->config().contains("auto_map"))
    state->weights.notes.push_back("config.json names code of its own (auto_map), which is never run");
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

const std::string& Model::name() const { return state_->name; }
const ModelTraits& Model::traits() const { return state_->traits; }
const ModelWeights& Model::weights() const { return state_->weights; }
int64_t Model::num_parameters() const { return count_parameters(weights(), traits()); }
int64_t Model::weight_bytes() const { return count_weight_bytes(weights(), traits()); }
int64_t Model::decode_bytes() const { return count_decode_bytes(weights(), traits()); }
const Tokenizer* Model::tokenizer() const { return state_->tokenizer.get(); }
const ChatTemplate* Model::chat_template() const { return state_->chat_template.get(); }
std::string Model::bos_token() const { return state_->bos_token; }
std::string Model::eos_token() const { return state_->eos_token; }

}  // namespace cheetah
