// SPDX-License-Identifier: MIT
#include "model/tokenizer/pipeline_tokenizer.h"

#include <algorithm>

#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {
std::string_view part(std::string_view text, const Segment& segment) {
  return text.substr(static_cast<size_t>(segment.begin), static_cast<size_t>(segment.end - segment.begin));
}
}  // namespace

std::vector<int32_t> PipelineTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = repair_utf8(text);
  std::vector<int32_t> ids;
  for (const Segment& segment : parts_.added.split(text, AddedTokens::Text::kRaw, options.parse_special)) {
    if (segment.token)
      ids.push_back(segment.token->id);
    else
      encode_raw(part(text, segment), segment.begin == 0, options.parse_special, ids);
  }
  return parts_.post_processor.apply(std::move(ids), options.add_special);
}

void PipelineTokenizer::encode_raw(
    std::string_view text, bool at_start, bool parse_special, std::vector<int32_t>& ids) const {
  NormalText normal;
  if (parts_.normalizer) {
    normal = {std::string(text), at_start};
    parts_.normalizer->apply(normal);
    text = normal.text;
    at_start = normal.at_start;
  }
  if (!parts_.added.has_any(AddedTokens::Text::kNormalized)) return encode_normal(text, at_start, ids);
  for (const Segment& segment : parts_.added.split(text, AddedTokens::Text::kNormalized, parse_special)) {
    if (segment.token)
      ids.push_back(segment.token->id);
    else
      encode_normal(part(text, segment), at_start && segment.begin == 0, ids);
  }
}

void PipelineTokenizer::encode_normal(std::string_view text, bool at_start, std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  if (!parts_.pre_tokenizer) return parts_.model->tokenize(text, ids);
  PieceList list{std::string(text), {{0, std::ssize(text), at_start}}};
  parts_.pre_tokenizer->apply(list);
  for (const PieceList::Piece& piece : list.pieces)
    if (piece.begin < piece.end) parts_.model->tokenize(list.view(piece), ids);
}

std::string PipelineTokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  DecodeChain chain(parts_.decoder);
  for (const int32_t id : ids)
    if (const auto token = decoded_token(id, skip_special)) chain.push(*token);
  chain.finish();
  return chain.take();
}

std::unique_ptr<DecodeChain> PipelineTokenizer::start_decoding() const {
  return std::make_unique<DecodeChain>(parts_.decoder);
}

std::optional<std::string_view> PipelineTokenizer::decoded_token(int32_t id, bool skip_special) const {
  const AddedToken* added = parts_.added.find(id);
  if (!added && !parts_.vocabulary->has(id)) return std::nullopt;
  const std::string_view text = token_text(id);
  if (skip_special && parts_.added.is_special(text)) return std::nullopt;
  return added && !added->spelling.empty() ? added->spelling : text;
}

int64_t PipelineTokenizer::vocab_size() const {
  return std::max(parts_.vocabulary->id_limit(), parts_.added.id_limit());
}

std::optional<int32_t> PipelineTokenizer::id_of(std::string_view token) const {
  if (const AddedToken* added = parts_.added.find(token)) return added->id;
  return parts_.vocabulary->find(token);
}

std::string_view PipelineTokenizer::token_text(int32_t id) const {
  if (const AddedToken* added = parts_.added.find(id)) return added->content;
  return parts_.vocabulary->text(id);
}

bool PipelineTokenizer::is_special(int32_t id) const {
  const auto text = token_text(id);
  return !text.empty() && parts_.added.is_special(text);
}

}  // namespace cheetah
