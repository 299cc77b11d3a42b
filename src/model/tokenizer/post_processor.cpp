// SPDX-License-Identifier: MIT
#include "model/tokenizer/post_processor.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {
namespace {
constexpr int kMaxNesting = 16;
constexpr size_t kMaxTemplates = 64;
constexpr size_t kMaxParts = 256;

std::vector<int32_t> id_list(const Json& list, const std::string& what) {
  std::vector<int32_t> ids;
  if (!list.is_array()) throw Error(format("{}: \"ids\" is not a list", what));
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxVocabulary)
      throw Error(format("{}: {} is not a token id", what, printable(dump_json(id))));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}
}  // namespace

PostProcessor::PostProcessor(const Json& description, const std::string& name) { add(description, 0, name); }

PostProcessor::PostProcessor(std::vector<int32_t> prefix, std::vector<int32_t> suffix) {
  templates_.push_back({{false, std::move(prefix)}, {true, {}}, {false, std::move(suffix)}});
}

void PostProcessor::add(const Json& description, int depth, const std::string& name) {
  if (depth > kMaxNesting || templates_.size() >= kMaxTemplates)
    throw Error(
        format("{}: more than {} post-processors or {} levels of them", name, kMaxTemplates, kMaxNesting));
  const JsonFields fields(description, name + ": post_processor");
  const std::string type = fields.string("type");
  if (type == "ByteLevel") return;  // only changes offsets
  if (type == "TemplateProcessing") return add_template(fields);
  if (type == "BertProcessing" || type == "RobertaProcessing") return add_pair(fields);
  if (type != "Sequence")
    throw Error(format("{}: post-processor type \"{}\" is not supported", fields.what(), printable(type)));
  const Json* list = fields.find("processors");
  if (!list || !list->is_array())
    throw Error(format("{}: a Sequence needs the list \"processors\"", fields.what()));
  for (const Json& step : *list) add(step, depth + 1, name);
}

void PostProcessor::add_template(const JsonFields& fields) {
  const Json* single = fields.find("single");
  if (!single || !single->is_array() || single->size() > kMaxParts)
    throw Error(format("{}: \"single\" is not a list of at most {} parts", fields.what(), kMaxParts));
  static const Json kNoTokens = Json::object();
  const Json* tokens = fields.find("special_tokens");
  const JsonFields specials(tokens ? *tokens : kNoTokens, fields.what() + ": special_tokens");
  Template parts;
  for (const Json& item : *single) {
    const JsonFields part(item, fields.what() + ": single");
    if (part.has("Sequence")) {
      const JsonFields sequence(*part.find("Sequence"), part.what());
      if (sequence.string("id") != "A")
        throw Error(format("{}: a template for one text names sequence \"{}\"", part.what(),
            printable(sequence.string("id"))));
      parts.push_back({true, {}});
      continue;
    }
    if (!part.has("SpecialToken")) throw Error(format("{}: expected Sequence or SpecialToken", part.what()));
    const std::string id = JsonFields(*part.find("SpecialToken"), part.what()).string("id");
    const Json* token = specials.find(id);
    if (!token)
      throw Error(format("{}: special token \"{}\" is not described", fields.what(), printable(id)));
    const Json* ids = JsonFields(*token, specials.what()).find("ids");
    if (!ids) throw Error(format("{}: special token \"{}\" has no \"ids\"", fields.what(), printable(id)));
    parts.push_back({false, id_list(*ids, specials.what())});
  }
  if (std::count_if(parts.begin(), parts.end(), [](const Part& part) { return part.is_text; }) != 1)
    throw Error(format("{}: the template for one text must name sequence \"A\" once", fields.what()));
  templates_.push_back(std::move(parts));
}

// "cls" and "sep" are pairs of a text and its id.
void PostProcessor::add_pair(const JsonFields& fields) {
  const auto id_of = [&](const char* field) {
    const Json* pair = fields.find(field);
    if (!pair || !pair->is_array() || pair->size() != 2)
      throw Error(format("{}: \"{}\" is not a pair of a token and its id", fields.what(), field));
    return id_list(Json::array({(*pair)[1]}), fields.what());
  };
  templates_.push_back({{false, id_of("cls")}, {true, {}}, {false, id_of("sep")}});
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids, bool add_special) const {
  if (!add_special) return ids;
  for (const Template& parts : templates_) {
    std::vector<int32_t> out;
    for (const Part& part : parts) {
      const std::vector<int32_t>& from = part.is_text ? ids : part.ids;
      out.insert(out.end(), from.begin(), from.end());
    }
    ids = std::move(out);
  }
  return ids;
}

}  // namespace cheetah
