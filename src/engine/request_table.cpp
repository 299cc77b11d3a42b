// SPDX-License-Identifier: MIT
#include "engine/request_table.h"

#include <algorithm>

#include "base/time.h"
#include "model/dry_breakers.h"

namespace cheetah {

RequestState& RequestTable::add(std::unique_ptr<RequestState> request) {
  request->number = ++num_added_;
  request->dry_breakers = breakers_of(request->request);
  return *requests_.emplace(request->request.id, std::move(request)).first->second;
}

// Made once for each list of texts: it takes a look at every token.
std::shared_ptr<const DryBreakers> RequestTable::breakers_of(const GenerationRequest& request) {
  constexpr size_t kKept = 16;
  if (!request.sampling.dry.is_on() || request.dry_breakers.empty() || !model_.tokenizer()) return nullptr;
  const auto found = breakers_.find(request.dry_breakers);
  if (found != breakers_.end()) return found->second;
  if (breakers_.size() >= kKept) breakers_.clear();
  return breakers_[request.dry_breakers] = make_dry_breakers(*model_.tokenizer(), request.dry_breakers);
}

RequestState* RequestTable::find(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

void RequestTable::start_choice(RequestState& request) {
  const auto choice = static_cast<int>(request.choices.size());
  auto sequence = std::make_unique<Sequence>(request, choice);
  sequence->lists.resize(num_groups_);
  const GenerationRequest& wanted = request.request;
  const int64_t work = request.num_prompt() + (request.embeds() ? 0 : wanted.max_tokens * wanted.best_of);
  sequence->rank = make_rank(wanted.priority, seconds(start_, request.times.arrived), config_.ageing_s, work,
      request.number * 1024 + static_cast<uint64_t>(choice));
  if (wanted.reasoning) sequence->rules.reasoning.emplace(*wanted.reasoning);
  if (wanted.grammar) sequence->grammar.emplace(grammars_.start(wanted.grammar));
  if (model_.tokenizer()) sequence->decoder.emplace(*model_.tokenizer(), wanted.skip_special);
  sequence->event.request = wanted.id;
  sequence->event.choice = choice;
  request.choices.push_back(std::move(sequence));
}

void RequestTable::start_choices(RequestState& request) {
  while (!request.forked()) start_choice(request);
}

void RequestTable::enqueue(Sequence& sequence) {
  sequence.status = SequenceStatus::kWaiting;
  waiting_.insert(std::ranges::upper_bound(waiting_, sequence.rank, {}, &Sequence::rank), &sequence);
}

void RequestTable::run(Sequence& sequence) {
  std::erase(waiting_, &sequence);
  run_new(sequence);
}

void RequestTable::run_new(Sequence& sequence) {
  running_.push_back(&sequence);
  sequence.status = SequenceStatus::kRunning;
}

void RequestTable::requeue(Sequence& sequence) {
  std::erase(running_, &sequence);
  enqueue(sequence);
}

void RequestTable::forget_done() {
  const auto is_done = [](const Sequence* s) { return s->status == SequenceStatus::kDone; };
  std::erase_if(running_, is_done);
  std::erase_if(waiting_, is_done);
}

}  // namespace cheetah
