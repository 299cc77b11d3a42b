// SPDX-License-Identifier: MIT
#include "serve/api/fill_in_middle.h"

#include <array>

#include "model/model.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/failure.h"
#include "serve/api/request_fields.h"

namespace cheetah {
namespace {

struct Marks {
  std::string_view prefix, suffix, middle, file;
};
// Qwen Coder, Granite and StarCoder, CodeGemma, CodeLlama, DeepSeek Coder (whose hole stands where the gap is).
constexpr std::array<Marks, 6> kMarks = {
    {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", ""}, {"▁<PRE>", "▁<SUF>", "▁<MID>", ""},
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", ""},
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", ""}}};

struct MarkIds {
  int32_t prefix, suffix, middle;
  std::optional<int32_t> file;
};

std::optional<MarkIds> marks_of(const Tokenizer& tokenizer) {
  for (const Marks& marks : kMarks) {
    const auto prefix = tokenizer.id_of(marks.prefix);
    const auto suffix = tokenizer.id_of(marks.suffix);
    const auto middle = tokenizer.id_of(marks.middle);
    if (!prefix || !suffix || !middle) continue;
    return MarkIds{
        *prefix, *suffix, *middle, marks.file.empty() ? std::nullopt : tokenizer.id_of(marks.file)};
  }
  return std::nullopt;
}

}  // namespace

std::vector<int32_t> fill_in_middle(
    const MiddleGap& gap, const ApiServices& services, const std::string& param) {
  const Tokenizer& tokenizer = tokenizer_of(services);
  const auto marks = marks_of(tokenizer);
  if (!marks)
    refuse("unsupported_parameter", param,
        param +
            " needs a model with fill-in-the-middle tokens, which this one has not; put the text into the prompt");
  check_text_length(services, gap.prefix, param);
  check_text_length(services, gap.suffix, param);
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view text) {
    const std::vector<int32_t> more = tokenizer.encode(text, {.add_special = false, .parse_special = false});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  if (services.model.traits().bos_id >= 0 && !tokenizer.encode("", {.add_special = true}).empty())
    ids.push_back(services.model.traits().bos_id);
  for (const auto& [name, text] : gap.files) {
    if (marks->file) ids.push_back(*marks->file);
    add(name + "\n" + text + (marks->file ? "" : "\n"));
  }
  if (marks->file && !gap.files.empty()) {
    ids.push_back(*marks->file);
    add("\n");
  }
  ids.push_back(marks->prefix);
  add(gap.prefix);
  ids.push_back(marks->suffix);
  add(gap.suffix);
  ids.push_back(marks->middle);
  return ids;
}

}  // namespace cheetah
