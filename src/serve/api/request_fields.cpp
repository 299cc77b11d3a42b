// SPDX-License-Identifier: MIT
#include "serve/api/request_fields.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/failure.h"
#include "serve/api/sampler_fields.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxChoices = 128;
constexpr int64_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr size_t kMaxBiases = 1024;
constexpr size_t kMaxModelNameBytes = 256;

bool is_model_name(std::string_view name) {
  const auto fine = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == ':' || c == '/' || c == '@' ||
           c == '+';
  };
  return !name.empty() && std::ranges::all_of(name, fine) && name.find("..") == std::string_view::npos;
}

void read_penalties(Fields& fields, const GenerationDefaults& defaults, GenerationRequest& request) {
  SamplingParams& sampling = request.sampling;
  const auto number = [&](std::string_view name, FieldRange range, std::optional<float> by_model,
                          float otherwise) {
    const auto given = fields.number(name, range);
    return given ? static_cast<float>(*given) : by_model.value_or(otherwise);
  };
  sampling.temperature = number("temperature", {0, 2}, defaults.temperature, 1);
  sampling.top_p = number("top_p", {0, 1, true}, defaults.top_p, 1);
  sampling.min_p = number("min_p", {0, 1}, defaults.min_p, 0);
  sampling.top_k =
      std::max<int64_t>(0, fields.integer("top_k", -1, INT32_MAX).value_or(defaults.top_k.value_or(0)));
  sampling.frequency_penalty = static_cast<float>(fields.number("frequency_penalty", {-2, 2}).value_or(0));
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", {-2, 2}).value_or(0));
  sampling.repetition_penalty = number("repetition_penalty", {0, 10, true}, defaults.repetition_penalty, 1);
  read_samplers(fields, request);
}

uint64_t read_seed(Fields& fields, uint64_t fallback) {
  const OrderedJson* value = fields.find("seed");
  if (!value) return fallback;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_number_integer()) return static_cast<uint64_t>(value->get<int64_t>());
  refuse("invalid_value", fields.param("seed"),
      format("{} must be a 64-bit integer, got {}", fields.param("seed"), shown(*value)));
}

void read_logit_bias(Fields& fields, int64_t vocab, GenerationRequest& request) {
  const OrderedJson* biases = fields.object("logit_bias");
  if (!biases) return;
  if (biases->size() > kMaxBiases)
    refuse("invalid_value", "logit_bias",
        format("logit_bias has {} entries, more than the limit of {}", biases->size(), kMaxBiases));
  for (const auto& [key, value] : biases->items()) {
    const std::string param = format("logit_bias[\"{}\"]", printable(key));
    int64_t id = -1;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size() || id < 0 || id >= vocab)
      refuse("invalid_value", param,
          format("{} is not a token id: expected an integer in [0, {}]", param, vocab - 1));
    const double bias = value.is_number() ? value.get<double>() : 1000;
    if (!(bias >= -100 && bias <= 100))
      refuse(
          "invalid_value", param, format("{} must be a number in [-100, 100], got {}", param, shown(value)));
    request.logit_bias.emplace_back(static_cast<int32_t>(id), static_cast<float>(bias));
  }
}

std::vector<int32_t> read_ids(Fields& fields, std::string_view name, int64_t vocab) {
  std::vector<int32_t> ids;
  if (const OrderedJson* values = fields.array(name))
    for (size_t i = 0; i < values->size(); ++i)
      ids.push_back(token_id_of((*values)[i], format("{}[{}]", fields.param(name), i), vocab));
  return ids;
}

void read_choices(Fields& fields, const ApiServices& services, GenerationRequest& request) {
  const int64_t most = std::min(kMaxChoices, std::max<int64_t>(1, services.max_sequences));
  request.n = static_cast<int>(fields.integer("n", 1, most).value_or(1));
  request.best_of = request.n;
  if (const auto best_of = fields.integer("best_of", 1, most)) {
    if (*best_of < request.n)
      refuse(
          "invalid_value", "best_of", format("best_of must be at least n={}, got {}", request.n, *best_of));
    request.best_of = static_cast<int>(*best_of);
  }
}

// Going first is a right that keys have; going last anyone may.
void read_priority(Fields& fields, GenerationRequest& request) {
  const int64_t priority = fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0);
  if (priority < 0 || priority > 100)
    refuse("priority_not_allowed", "priority",
        format("priority must be in [0, 100] for this key, got {}; a lower number goes first", priority),
        403);
  request.priority = static_cast<int>(priority);
}

void read_salt(Fields& fields, const CallFacts& facts, GenerationRequest& request) {
  const OrderedJson* value = fields.find("cache_salt");
  request.cache_salt = facts.cache_salt;
  if (!value) return;
  if (!value->is_string() || value->get_ref<const std::string&>().empty() ||
      value->get_ref<const std::string&>().size() > 1024)
    refuse("invalid_value", "cache_salt",
        format("cache_salt must be a string of 1 to 1024 bytes, got {}", shown(*value)));
  // The length keeps one tenant's salt and request salt from reading as another's.
  request.cache_salt =
      format("{}:{}{}", facts.cache_salt.size(), facts.cache_salt, value->get_ref<const std::string&>());
}

}  // namespace

ApiResult guarded(const std::function<ApiCall()>& parse) {
  try {
    return parse();
  } catch (const ApiFailure& failure) {
    return failure.error();
  } catch (const std::exception& problem) {
    ApiError error;
    error.status = 500;
    error.message = format("the request could not be prepared: {}", printable(problem.what(), 200));
    error.code = "internal_error";
    return error;
  }
}

void check_model(Fields& fields, const ApiServices& services, bool optional) {
  if (optional && !fields.has("model")) return;
  const std::string name = fields.required_string("model", SIZE_MAX);
  constexpr std::string_view kTag = ":latest";  // Ollama's clients add it to names without a tag
  const std::string_view untagged =
      name.ends_with(kTag) ? std::string_view(name).substr(0, name.size() - kTag.size()) : name;
  const auto is_named = [&](std::string_view known) {
    return known == name || known == untagged || known == "*";
  };
  if (is_named(services.model_name) || std::ranges::any_of(services.aliases, is_named)) return;
  if (name.size() > kMaxModelNameBytes || !is_model_name(name))
    refuse("invalid_model_name", "model",
        format("model must be a name of 1 to {} letters, digits and ._:/@+-, got \"{}\"", kMaxModelNameBytes,
            printable(name)));
  refuse("model_not_found", "model",
      format("the model \"{}\" does not exist here; this server has \"{}\"", printable(name),
          services.model_name),
      404);
}

void read_sampling(
    Fields& fields, const ApiServices& services, const CallFacts& facts, GenerationRequest& request) {
  const int64_t vocab = services.model.traits().vocab;
  read_penalties(fields, services.defaults, request);
  read_choices(fields, services, request);
  read_stop(fields, "stop", request);
  request.seed = read_seed(fields, facts.seed);
  read_logit_bias(fields, vocab, request);
  request.allowed_ids = read_ids(fields, "allowed_token_ids", vocab);
  request.stop_ids = read_ids(fields, "stop_token_ids", vocab);
  request.min_tokens = fields.integer("min_tokens", 0, services.max_context).value_or(0);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.include_stop_in_text = fields.boolean("include_stop_str_in_output").value_or(false);
  request.skip_special = fields.boolean("skip_special_tokens").value_or(true);
  if (const auto seconds = fields.number("timeout", {0, 86400, true}))
    request.deadline =
        facts.now + std::chrono::duration_cast<EngineTime::duration>(std::chrono::duration<double>(*seconds));
  read_priority(fields, request);
  read_salt(fields, facts, request);
  fields.string("user", 1024);
}

void read_stop(Fields& fields, std::string_view name, GenerationRequest& request) {
  const OrderedJson* value = fields.find(name);
  if (!value) return;
  if (!value->is_string() && !value->is_array())
    fields.wrong_type(name, *value, "a string or an array of strings");
  const OrderedJson list = value->is_array() ? *value : OrderedJson::array({*value});
  if (std::ssize(list) > kMaxStops)
    refuse("too_many_stop_sequences", fields.param(name),
        format("{} has {} items, more than the limit of {}", fields.param(name), list.size(), kMaxStops));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string param = format("{}[{}]", fields.param(name), i);
    if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty() ||
        list[i].get_ref<const std::string&>().size() > kMaxStopBytes)
      refuse("invalid_value", param,
          format("{} must be a string of 1..{} bytes, got {}", param, kMaxStopBytes, shown(list[i])));
    request.stop.push_back(list[i].get<std::string>());
  }
}

StreamOptions read_stream(Fields& fields) {
  StreamOptions result;
  result.stream = fields.boolean("stream").value_or(false);
  const OrderedJson* options = fields.object("stream_options");
  if (!options) return result;
  if (!result.stream)
    refuse("conflicting_parameters", "stream_options", "stream_options needs \"stream\": true");
  Fields inner(*options, "stream_options");
  result.include_usage = inner.boolean("include_usage").value_or(false);
  result.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
  return result;
}

void context_exceeded(const ApiServices& services, const std::string& param, const std::string& seen) {
  refuse("context_length_exceeded", param,
      format("this model's context holds {} tokens but {} has {}; shorten it", services.max_context, param,
          seen));
}

void check_text_length(const ApiServices& services, std::string_view text, const std::string& param) {
  const int64_t least = std::ssize(text) / services.grammars.tables().longest_token_bytes();
  if (least > services.max_context) context_exceeded(services, param, format("at least {} tokens", least));
}

void fit_to_context(const ApiServices& services, std::optional<int64_t> max_tokens,
    GenerationRequest& request, const std::string& prompt_param, std::vector<std::string>& warnings) {
  const int64_t prompt = std::ssize(request.prompt);
  const int64_t room = services.max_context - prompt;
  if (room < (max_tokens == 0 ? 0 : 1)) context_exceeded(services, prompt_param, format("{} tokens", prompt));
  request.max_tokens = std::min(max_tokens.value_or(services.defaults.max_new_tokens.value_or(room)), room);
  if (max_tokens && *max_tokens > room)
    warnings.push_back(format("max_tokens was reduced from {} to {}, what the context of {} leaves",
        *max_tokens, room, services.max_context));
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
}

const Tokenizer& tokenizer_of(const ApiServices& services) {
  if (const Tokenizer* tokenizer = services.model.tokenizer()) return *tokenizer;
  refuse("no_tokenizer", "", "this model has no tokenizer; send token ids to /v1/completions");
}

}  // namespace cheetah
