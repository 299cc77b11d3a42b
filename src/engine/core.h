#pragma once
// The engine without its thread: everything a step does, in the order it does it. One thread; time is an
// argument, so that a test replays any run.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/decision_log.h"
#include "engine/engine_config.h"
#include "engine/engine_stats.h"
#include "engine/kv/kv_transfer.h"
#include "engine/kv/page_bytes.h"
#include "engine/kv/page_pool.h"
#include "engine/kv/prefix_cache.h"
#include "engine/memory_plan.h"
#include "engine/refusal.h"
#include "engine/scheduler/scheduler.h"
#include "engine/sequence.h"
#include "kernels/sample/row_sampler.h"
#include "model/step.h"

namespace cheetah {

// What runs the model on the config's device. The threads and the model outlive it.
using RunnerFactory = std::function<std::unique_ptr<Runner>(const Model&, const EngineConfig&, ThreadPool&)>;
std::unique_ptr<Runner> make_engine_runner(const Model& model, const EngineConfig& config,
                                           ThreadPool& threads);

// Steps run one after the other, or, where the runner takes two at once, one step ahead of what the host
// knows: the next is submitted with the last one's tokens still on the device. Both give the same tokens.
class EngineCore {
 public:
  EngineCore(std::shared_ptr<const Model> model, const MemoryPlan& plan, EngineTime now,
             const RunnerFactory& make_runner = make_engine_runner);
  ~EngineCore();

  // None of these throws for what a request brings; their events wait for deliver().
  void submit(GenerationRequest request, EventSink sink, EngineTime now);
  void cancel(RequestId id, EngineTime now);
  void pause(RequestId id, bool paused, EngineTime now);
  void finish_all(FinishReason reason, EngineTime now, const RequestError& error = {});
  void refuse_new() { refuses_ = true; }
  void note_refused(RequestId id, EngineTime now);  // by someone before us

  // One turn. Not `computed`: there was nothing to do before `wake`. What a step throws ends the requests it
  // can be blamed on, not the engine.
  struct Turn {
    bool computed = false;
    std::optional<EngineTime> wake;
  };
  Turn step(EngineTime now);

  // Calls the sinks with what happened since the last call.
  void deliver(EngineTime now);

  // Pages for other engines: those of a request's prompt up to `end_token`, as they are computed, held until
  // closed. The request may come later.
  using ExportNumber = uint64_t;
  struct ExportPages {
    std::vector<PageList> lists;  // a group each
    int64_t ready = 0;            // places
  };
  using ExportSink = std::function<void(const ExportPages&, const KvProgress&)>;
  ExportNumber open_export(RequestId id, int64_t end_token, ExportSink sink);
  void close_export(ExportNumber number);
  // … and from them. Pages that no running sequence needs make room; there may be none.
  KvImported import_pages(const KvImport& pages);
  void unpin(RequestId id);
  int64_t cached_tokens(std::string_view cache_salt, std::span<const int32_t> text) const;
  using ChangeSink = std::function<void(std::vector<PrefixChange>&&)>;
  void watch_cache(ChangeSink sink);
  KvFormat kv_format();
  const PageBytes& page_bytes() const { return bytes_; }
  PageBytes& page_bytes() { return bytes_; }

  bool idle() const { return requests_.empty() && num_flights_ == 0; }
  int64_t num_waiting() const { return std::ssize(waiting_); }
  const EngineConfig& config() const { return config_; }
  const Model& model() const { return *model_; }
  EngineStats stats() const;
  void copy_stats(EngineStats& stats) const;  // without allocating, where `stats` was filled before
  const DecisionLog& decisions() const { return log_; }
  void reset_counters();  // and empties the prefix cache
  void check_invariants() const;

 private:
  // One sequence's part of the batch.
  struct Work {
    Sequence* sequence = nullptr;
    int64_t count = 0;         // tokens
    int64_t end = 0;           // of the sequence's tokens, computed when it is done
    bool completes = false;    // all there are
    bool forks = false;        // … of a prompt with several choices
    int64_t logit_row = 0;     // where it completes: in logit_rows_, for sampling
    int64_t prompt_begin = 0;  // in host_logits_: the prompt's, where wanted
    int64_t prompt_count = 0;
    int64_t hidden_begin = 0;
    int64_t hidden_count = 0;
  };

  // A step that was submitted and not yet waited for.
  struct Flight {
    StepTicket ticket{};
    std::vector<Work> works;
    std::vector<Sequence*> owners;  // of the tokens it chooses
    StepShape shape;
    EngineTime begun;
    // Of sequences and requests that ended meanwhile: theirs until it is done.
    std::vector<PageIndex> pages;
    std::vector<std::unique_ptr<RequestState>> requests;
  };

  struct Export {
    ExportNumber number = 0;
    RequestId request{};
    int64_t end_token = 0;
    ExportSink sink;
    ExportPages pages;
    bool ended = false;  // finished or failed
  };
  struct Pin {  // of imported pages, until their request is admitted
    RequestId request{};
    std::vector<PageIndex> pages;
  };
  struct ExportReport {
    ExportNumber number = 0;
    KvProgress progress;
  };
  struct Outgoing {
    RequestState* request = nullptr;
    GenerationEvent event;
  };

  // core.cpp
  std::optional<RequestError> refusal(const GenerationRequest& request) const;
  void start_counters();
  void add_request(RequestState& request, EngineTime now);
  void start_sequence(RequestState& request, int choice);
  void enqueue(Sequence& sequence);
  void forget_finished();
  void expire(EngineTime now);
  double measure_fragmentation() const;
  void count_work_left(const Sequence& sequence, EngineStats& stats) const;
  void note(DecisionKind kind, const Sequence& sequence, EngineTime now, Decision decision = {});

  // core_pages.cpp
  bool admit(Sequence& sequence, EngineTime now);
  void promise(Sequence& sequence, const PrefixMatch& match);
  bool grow(Sequence& sequence, int64_t full, int64_t windowed);
  bool make_free(int64_t count);
  int64_t first_held(size_t group, int64_t computed) const;
  bool swap_in(Sequence& sequence);
  void swap_out(Sequence& sequence);
  int64_t num_shared_next(const Sequence& sequence) const;
  bool prepare_pages(Sequence& sequence, int64_t count);
  void preempt(Sequence& sequence, Preemption how);
  void release_pages(Sequence& sequence);
  void keep_in_cache(Sequence& sequence);
  void withdraw_promise(Sequence& sequence);
  void publish(Sequence& sequence);
  void drop_unseen_pages(Sequence& sequence);
  bool reuses(const Sequence& sequence) const;
  bool turns_long(int64_t tokens) const;
  static PrefixCache::Writer writer_of(const Sequence& sequence) { return sequence.rank.number; }
  std::span<const int32_t> reusable_tokens(const Sequence& sequence) const;
  const std::string& salt_of(const Sequence& sequence) const;

  // core_transfer.cpp
  bool is_exported(const RequestState& request) const;
  void advance_exports(const Sequence& sequence);
  bool holds_window_before(const Sequence& sequence, int64_t end) const;
  void end_exports(RequestId id, std::string_view why);
  void report(const Export& exported, KvProgress progress);
  void deliver_reports();
  int64_t end_of(const Export& exported, const RequestState& request) const;
  std::string refuse_import(const KvImport& pages) const;
  std::string store_import(const KvImport& pages, const std::string& salt, int64_t stored);
  void load_import(const KvImport& pages, std::span<const PageList> lists);
  void pin_stored(const KvImport& pages, const std::string& salt);
  void release_pin(Pin& pin);
  bool unpin_oldest();

  // core_step.cpp
  Turn take_turn(EngineTime now);
  void plan_turn(EngineTime now);
  void compute_batch();
  void compute_one_by_one();
  void clear_batch();
  void build_views(EngineTime now);
  RunningSequence view_running(const Sequence& sequence, bool tight) const;
  int64_t longest_chunk(const RequestState& request, int64_t pending) const;  // 0: any
  WaitingSequence view_waiting(const Sequence& sequence, bool look_up, EngineTime now) const;
  void apply_plan(EngineTime now);
  void add_work(Sequence& sequence, int64_t count);
  void add_tokens(const Sequence& sequence, int64_t end);

  // core_flight.cpp
  static RequestError error_of(const std::exception& error);
  void fail(RequestState& request, const std::exception& error);
  template <class Action>
  void guarded(Sequence& sequence, const Action& action);
  bool looks_ahead() const;
  bool can_run_ahead(const Sequence& sequence) const;
  bool plan_runs_ahead() const;
  bool ends_in_flight(const Sequence& sequence) const;
  void launch();
  void set_off(Flight& flight, const Work& work, int64_t& sample, EngineTime now);
  void land();
  void land_all();
  void drop_flights();
  void close(Flight& flight);
  void commit(const Flight& flight, const StepResult& result);
  void commit_work(const Work& work, const StepResult& result, EngineTime now);
  void observe_step(const Flight& flight, EngineTime end);
  Flight* newest_flight();

  // core_resume.cpp
  void resume(RequestState& request, EngineTime now);
  void replay(Sequence& sequence, std::span<const int32_t> tokens, EngineTime now);
  bool waits_for_first_choice(const Sequence& sequence) const;

  // core_tokens.cpp
  void collect_prompt_logprobs(const Work& work, std::span<const float> logits);
  void collect_hidden(const Work& work, std::span<const float> hidden);
  void fork(RequestState& request, EngineTime now);
  void add_samples(const Work& work);
  SampleRow sample_of(Sequence& sequence);
  void take_token(Sequence& sequence, SampledToken& sampled, EngineTime now);
  void append_token(Sequence& sequence, GeneratedToken&& token, EngineTime now);
  bool end_after_token(Sequence& sequence, EngineTime now);
  void observe_token(Sequence& sequence, EngineTime now);
  bool is_end(const Sequence& sequence, int32_t id) const;
  void finish(Sequence& sequence, FinishReason reason, EngineTime now, const RequestError& error = {});
  void finish_request(RequestState& request, FinishReason reason, EngineTime now,
                      const RequestError& error = {});
  void close_event(Sequence& sequence, FinishReason reason, EngineTime now);
  void send_best(RequestState& request);
  void send(Sequence& sequence);
  void count_finished(const RequestState& request, FinishReason reason);

  std::shared_ptr<const Model> model_;  // shared with the server, which names and inspects it
  EngineConfig config_;
  SchedulerConfig scheduling_;
  EngineTime start_;
  ThreadPool threads_;
  std::unique_ptr<Runner> runner_;
  const KvLayout layout_;
  KvPool kv_;
  PageBytes bytes_;
  PagePool pool_;
  PrefixCache cache_;
  GrammarRuntime grammars_;
  StepTimeLearner learner_;
  DecisionLog log_;
  EngineStats stats_;
  bool refuses_ = false;
  uint64_t num_requests_ = 0;

  std::map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::vector<Sequence*> running_;
  std::vector<Sequence*> waiting_;                       // by rank
  std::vector<std::unique_ptr<RequestState>> finished_;  // until their last events are delivered
  std::vector<Outgoing> outbox_;
  bool any_finished_ = false;
  std::vector<Export> exports_;
  ExportNumber num_exports_ = 0;
  std::vector<ExportReport> reports_;
  std::vector<Pin> pins_;  // oldest first
  ChangeSink change_sink_;
  std::vector<PrefixChange> changes_;
  Sequence* last_held_ = nullptr;  // the log says once why one waits
  HoldReason last_hold_{};

  // Reused from step to step.
  std::vector<RunningSequence> running_views_;
  std::vector<WaitingSequence> waiting_views_;
  StepPlan plan_;
  bool stood_back_ = false;                           // somebody, in the last plan that was followed
  std::vector<Sequence*> was_running_, was_waiting_;  // as the plan numbers them
  std::vector<Work> works_;
  std::vector<int32_t> batch_tokens_;
  std::vector<FedToken> batch_fed_;
  std::vector<AttentionSequence> batch_sequences_, further_groups_;
  std::vector<int64_t> logit_rows_, hidden_rows_, host_logits_;
  std::vector<SampleRow> samples_;
  StepShape shape_;

  std::vector<Flight> flights_;  // a ring: as many as the runner takes
  size_t oldest_flight_ = 0, num_flights_ = 0;
  EngineTime last_landing_{};
};

}  // namespace cheetah
