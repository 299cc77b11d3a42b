// SPDX-License-Identifier: MIT
#pragma once
// Every request the engine has, and which of their sequences run and which wait.
#include <map>
#include <memory>
#include <vector>

#include "engine/engine_config.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace cheetah {

// Owns the requests; their sequences stay where they are until the request is taken out. One thread. Always:
// a running sequence is in running(), a waiting one in waiting(), by rank, and one that is done in neither once
// the finished ones were taken.
class RequestTable {
 public:
  // Model and config outlive it. `num_groups`: of layers, each with a list of pages per sequence.
  RequestTable(const Model& model, const EngineConfig& config, size_t num_groups, EngineTime start)
      : model_(model), config_(config), num_groups_(num_groups), start_(start) {}

  RequestState& add(std::unique_ptr<RequestState> request);  // gives it its number
  RequestState* find(RequestId id) const;                    // nullptr: there is none
  bool contains(RequestId id) const { return requests_.contains(id); }
  bool empty() const { return requests_.empty(); }
  const std::map<RequestId, std::unique_ptr<RequestState>>& all() const { return requests_; }

  void start_choice(RequestState& request);   // makes its next one; it neither runs nor waits
  void start_choices(RequestState& request);  // … all that are still to be made
  void enqueue(Sequence& sequence);
  void run(Sequence& sequence);      // one that waited
  void run_new(Sequence& sequence);  // one that did not wait
  void requeue(Sequence& sequence);  // one that ran
  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& waiting() const { return waiting_; }

  // The sequence's status is kDone now.
  void note_done() { any_done_ = true; }
  // Forgets sequences that are done and calls take(std::unique_ptr<RequestState>) with each request all of whose
  // choices are.
  template <class Take>
  void take_finished(const Take& take) {
    if (!any_done_) return;
    any_done_ = false;
    forget_done();
    for (auto at = requests_.begin(); at != requests_.end();) {
      const bool is_last = at->second->num_finished == at->second->request.best_of;
      if (is_last) take(std::move(at->second));
      at = is_last ? requests_.erase(at) : std::next(at);
    }
  }

 private:
  void forget_done();
  std::shared_ptr<const DryBreakers> breakers_of(const GenerationRequest& request);

  const Model& model_;
  const EngineConfig& config_;
  const size_t num_groups_;
  const EngineTime start_;
  GrammarRuntime grammars_;
  // Of the requests that came last, by their texts; few differ.
  std::map<std::vector<std::string>, std::shared_ptr<const DryBreakers>> breakers_;
  std::map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::vector<Sequence*> running_, waiting_;
  uint64_t num_added_ = 0;
  bool any_done_ = false;
};

}  // namespace cheetah
