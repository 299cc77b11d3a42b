// SPDX-License-Identifier: MIT
#include "engine/grammar/grammar.h"

#include <algorithm>

namespace cheetah {

GrammarTables::GrammarTables(std::shared_ptr<const GrammarProgram> program)
    : program_(std::move(program)), masks_(program_->take_warm_masks()) {
  if (!masks_) masks_ = std::make_shared<TokenMasks>(program_->automaton(), program_->vocabulary());
}

const std::shared_ptr<TokenMasks>& GrammarTables::masks() {
  if (masks_->full()) masks_ = std::make_shared<TokenMasks>(program_->automaton(), program_->vocabulary());
  return masks_;
}

GrammarState::GrammarState(std::shared_ptr<const GrammarProgram> program)
    : GrammarState(std::make_shared<GrammarTables>(std::move(program))) {}

GrammarState::GrammarState(std::shared_ptr<GrammarTables> tables)
    : tables_(std::move(tables)), masks_(tables_->masks()), config_(masks_->configurations().start()) {}

void GrammarState::leave_full_table() {
  if (!masks_->full()) return;
  const std::shared_ptr<TokenMasks> fresh = tables_->masks();
  config_ = fresh->configurations().import(masks_->configurations(), config_);
  masks_ = fresh;
}

void GrammarState::fill_mask(std::span<uint64_t> words) {
  if (ended_) return std::fill(words.begin(), words.end(), 0);
  leave_full_table();
  masks_->fill(config_, words);
}

bool GrammarState::accept(int32_t token) {
  const TokenVocabulary& vocabulary = tables_->program().vocabulary();
  if (ended_ || token < 0 || token >= vocabulary.size()) return false;
  if (vocabulary.is_eos(token)) return ended_ = is_complete();
  const std::string_view bytes = vocabulary.bytes(token);
  return !bytes.empty() && bytes.size() <= TokenVocabulary::kMaxTokenBytes && accept_bytes(bytes);
}

bool GrammarState::accept_bytes(std::string_view bytes) {
  if (ended_) return false;
  leave_full_table();
  ConfigId at = config_;
  for (const char byte : bytes) {
    at = masks_->configurations().after(at, static_cast<uint8_t>(byte));
    if (at == ConfigId::kDead) return false;
  }
  config_ = at;
  return true;
}

bool GrammarState::is_complete() const { return !ended_ && masks_->configurations().complete(config_); }

bool GrammarState::is_dead_end() { return !ended_ && !masks_->any(config_); }

std::string GrammarState::forced_text(size_t max_bytes) {
  std::string text;
  Configurations& configurations = masks_->configurations();
  ConfigId at = config_;
  while (!ended_ && text.size() < max_bytes && !configurations.complete(at)) {
    const int byte = configurations.only_byte(at);
    if (byte < 0) break;
    text.push_back(static_cast<char>(byte));
    at = configurations.after(at, static_cast<uint8_t>(byte));
  }
  return text;
}

GrammarState GrammarRuntime::start(const std::shared_ptr<const GrammarProgram>& program) {
  const auto known = std::find_if(recent_.begin(), recent_.end(),
      [&](const auto& tables) { return &tables->program() == program.get(); });
  if (known != recent_.end())
    recent_.splice(recent_.begin(), recent_, known);
  else
    recent_.push_front(std::make_shared<GrammarTables>(program));
  if (recent_.size() > max_programs_) recent_.pop_back();
  return GrammarState(recent_.front());
}

}  // namespace cheetah
