#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <variant>

#include "base/mailbox.h"
#include "base/published.h"
#include "base/random.h"
#include "engine/core.h"

namespace cheetah {
namespace {

EngineTime now() { return std::chrono::steady_clock::now(); }

struct Submit {
  GenerationRequest request;
  EventSink sink;
};
struct Refused {  // by submit(), for the log
  RequestId id;
};
struct Cancel {
  RequestId id;
};
struct Pause {
  RequestId id;
  bool paused;  // false: goes on
};
struct Ask {  // something to do between two steps
  std::function<void(EngineCore&)> question;
};
struct WhenIdle {  // called once nothing runs or waits
  std::function<void()> tell;
};
using Command = std::variant<Submit, Refused, Cancel, Pause, Ask, WhenIdle>;

// Ids of the engine's own requests, far from those of people.
constexpr uint64_t kOwnIds = ~uint64_t{0} - 16;

}  // namespace

// The thread and the way to it. Only the thread touches core once it runs; others read what it publishes.
struct Engine::State {
  State(std::shared_ptr<const Model> model, const MemoryPlan& plan)
      : core(std::move(model), plan, now()), config(core.config()), kv_format(core.kv_format()) {
    publish();
    thread = std::thread([this] { loop(); });
  }
  ~State() {
    inbox.close();
    thread.join();
  }

  void loop() {
    std::vector<Command> commands;
    for (;;) {
      inbox.take_all(commands);
      for (Command& command : commands) handle(command);
      if (inbox.closed()) break;
      if (!commands.empty()) publish();
      if (core.idle()) {
        for (const auto& tell : std::exchange(when_idle, {})) tell();
        inbox.wait();
        continue;
      }
      const EngineCore::Turn turn = core.step(now());
      publish();
      if (!turn.computed && turn.wake && !core.idle()) inbox.wait_until(*turn.wake);
    }
    core.finish_all(FinishReason::kCancelled, now());
    inbox.take_all(commands);  // posted before the box closed: nobody waits in vain
    for (Command& command : commands) handle(command);
    core.finish_all(FinishReason::kCancelled, now());
    publish();
    for (const auto& tell : when_idle) tell();
  }

  void handle(Command& command) {
    if (auto* submit = std::get_if<Submit>(&command)) {
      core.submit(std::move(submit->request), std::move(submit->sink), now());
      num_waiting.store(core.num_waiting());  // before it leaves the posted ones: it is never not counted
      --num_posted;
    } else if (const auto* refused = std::get_if<Refused>(&command)) {
      core.note_refused(refused->id, now());
    } else if (const auto* cancel = std::get_if<Cancel>(&command)) {
      core.cancel(cancel->id, now());
    } else if (const auto* pause = std::get_if<Pause>(&command)) {
      core.pause(pause->id, pause->paused, now());
    } else if (const auto* ask = std::get_if<Ask>(&command)) {
      ask->question(core);
    } else {
      when_idle.push_back(std::move(std::get<WhenIdle>(command).tell));
    }
  }

  // First what others can read, then the events: whoever has an event finds it counted.
  void publish() {
    num_waiting.store(core.num_waiting());
    core.copy_stats(next_stats);
    stats.swap_in(next_stats);
    decisions.with([this](DecisionLog& log) { log.follow(core.decisions()); });
    core.deliver(now());
  }

  // What can be told without the engine thread, which may be in a long step.
  std::optional<RequestError> refusal(const GenerationRequest& request) const {
    if (draining) return is_draining();
    if (const int64_t waiting = num_posted + num_waiting; waiting >= config.max_queue)
      return queue_is_full(waiting);
    return refusal_of(request, config, core.model().traits());
  }

  void post(std::function<void(EngineCore&)> action) { inbox.post(Ask{std::move(action)}); }

  // Runs `question` on the engine thread between two steps and waits for its answer.
  template <class Question>
  auto ask(Question question) {
    using Answer = decltype(question(core));
    auto promise = std::make_shared<std::promise<Answer>>();  // shared: the caller and the command
    auto answer = promise->get_future();
    inbox.post(Ask{[promise, question](EngineCore& engine) { promise->set_value(question(engine)); }});
    return answer.get();
  }

  EngineCore core;
  const EngineConfig config;
  const KvFormat kv_format;
  Mailbox<Command> inbox;
  std::atomic<int64_t> num_posted{0};   // requests in the box
  std::atomic<int64_t> num_waiting{0};  // … and in the core's queue
  std::atomic<bool> draining{false};
  Published<EngineStats> stats;
  Published<DecisionLog> decisions;
  EngineStats next_stats;  // of the thread
  std::vector<std::function<void()>> when_idle;
  std::thread thread;
};

Engine::Engine(std::shared_ptr<const Model> model, const EngineConfig& config) {
  const MemoryPlan plan = plan_memory(*model, config);
  state_ = std::make_unique<State>(std::move(model), plan);
}

Engine::~Engine() = default;

void Engine::submit(GenerationRequest request, EventSink sink) {
  if (const auto error = state_->refusal(request)) {
    state_->inbox.post(Refused{request.id});
    return sink(refusal_event(request, *error, now()));
  }
  ++state_->num_posted;
  state_->inbox.post(Submit{std::move(request), std::move(sink)});
}

void Engine::cancel(RequestId id) { state_->inbox.post(Cancel{id}); }
void Engine::pause(RequestId id) { state_->inbox.post(Pause{id, true}); }
void Engine::resume(RequestId id) { state_->inbox.post(Pause{id, false}); }

// Prompts of several lengths and a few tokens each, so that the step times are known too.
void Engine::warm_up() {
  const int64_t room = std::max<int64_t>(1, state_->config.max_context - 4);
  uint64_t id = kOwnIds;
  for (const int64_t length : {1, 16, 64, 128, 256}) {
    GenerationRequest request;
    request.id = RequestId{id++};
    request.cache_salt = "warm-up";
    request.max_tokens = 4;
    request.ignore_eos = true;
    Philox random(static_cast<uint64_t>(length));
    for (int64_t i = 0; i < std::min(length, room); ++i)
      request.prompt.push_back(
          static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(model().traits().vocab)));
    std::promise<void> done;
    submit(std::move(request), [&done](GenerationEvent&& event) {
      if (event.done) done.set_value();
    });
    done.get_future().wait();
  }
  state_->ask([state = state_.get()](EngineCore& core) {
    core.reset_counters();
    state->publish();
    return true;
  });
}

void Engine::drain(std::chrono::milliseconds limit) {
  state_->draining = true;
  state_->ask([](EngineCore& core) {
    core.refuse_new();
    return true;
  });
  auto promise = std::make_shared<std::promise<void>>();  // shared: it may outlive this wait
  auto idle = promise->get_future();
  state_->inbox.post(WhenIdle{[promise] { promise->set_value(); }});
  if (idle.wait_for(limit) == std::future_status::ready) return;
  state_->ask([state = state_.get()](EngineCore& core) {
    core.finish_all(FinishReason::kCancelled, now());
    state->publish();
    return true;
  });
}

EngineStats Engine::stats() const { return state_->stats.copy(); }

std::string Engine::explain_last(int64_t num_decisions) const {
  return text_of(state_->decisions.with([&](DecisionLog& log) { return log.last(num_decisions); }));
}

const EngineConfig& Engine::config() const { return state_->config; }

const Model& Engine::model() const { return state_->core.model(); }

// The caller's end of an export. The engine thread adds pages; whoever reads looks under the lock and copies
// without it. The pages go back when it is closed and the last reader is through.
class Engine::Export final : public KvExport {
 public:
  explicit Export(State& state) : books_(std::make_shared<Books>(state)) {}
  ~Export() override { close(); }

  void open(RequestId id, int64_t end_token, KvProgressSink progress) {
    const auto add = [books = books_, progress = std::move(progress)](const EngineCore::ExportPages& pages,
                                                                      const KvProgress& news) {
      const bool is_closed = books->entry.with([&](Entry& entry) {
        entry.pages = pages;
        return entry.closed;
      });
      if (!is_closed) progress(news);
    };
    books_->state.post([books = books_, id, end_token, add](EngineCore& core) {
      books->number = core.open_export(id, end_token, add);
    });
  }

  void close() override {
    if (books_->entry.with(
            [](Entry& entry) { return !std::exchange(entry.closed, true) && entry.readers == 0; }))
      give_back(books_);
  }

  void read(int64_t first_token, int64_t end_token, std::span<std::byte> to,
            std::function<void(bool)> done) override {
    const Range range{first_token, end_token, to};
    auto pages = begin_read(range);
    if (!pages) return done(false);
    State& state = books_->state;
    if (state.core.page_bytes().on_host()) {
      copy(state.kv_format, *pages, range, [&](PageIndex page, std::span<std::byte> bytes) {
        std::as_const(state.core).page_bytes().copy_out(page, bytes);
      });
      end_read(books_);
      return done(true);
    }
    state.post([books = books_, pages = std::move(*pages), range, done = std::move(done)](EngineCore& core) {
      copy(books->state.kv_format, pages, range,
           [&](PageIndex page, std::span<std::byte> bytes) { core.page_bytes().save(page, bytes); });
      end_read(books);
      done(true);
    });
  }

 private:
  struct Range {
    int64_t first_token, end_token;
    std::span<std::byte> to;
  };
  struct Entry {
    EngineCore::ExportPages pages;
    int64_t readers = 0;
    bool closed = false;
  };
  struct Books {
    explicit Books(State& owner) : state(owner) {}
    State& state;
    EngineCore::ExportNumber number = 0;  // the engine thread's
    Published<Entry> entry;
  };
  using SharedBooks =
      std::shared_ptr<Books>;  // shared: the caller and what the engine thread has still to do

  std::optional<EngineCore::ExportPages> begin_read(const Range& range) {
    const KvFormat& format = books_->state.kv_format;
    const int64_t width = format.page_tokens;
    return books_->entry.with([&](Entry& entry) -> std::optional<EngineCore::ExportPages> {
      if (entry.closed || range.first_token < 0 || range.first_token % width != 0 ||
          range.end_token % width != 0 || range.end_token < range.first_token ||
          range.end_token > entry.pages.ready * width ||
          std::ssize(range.to) != format.bytes_for(range.end_token - range.first_token))
        return std::nullopt;
      ++entry.readers;
      return entry.pages;
    });
  }

  static void end_read(const SharedBooks& books) {
    if (books->entry.with([](Entry& entry) { return --entry.readers == 0 && entry.closed; }))
      give_back(books);
  }

  static void give_back(const SharedBooks& books) {
    books->state.post([books](EngineCore& core) { core.close_export(books->number); });
  }

  template <class Save>
  static void copy(const KvFormat& format, const EngineCore::ExportPages& pages, const Range& range,
                   const Save& save) {
    const auto size = static_cast<size_t>(format.page_bytes);
    auto to = range.to;
    for (int64_t i = range.first_token / format.page_tokens; i < range.end_token / format.page_tokens; ++i)
      for (const PageList& list : pages.lists) {
        if (list.holds(i))
          save(list.at(i), to.first(size));
        else
          std::ranges::fill(to.first(size), std::byte{0});
        to = to.subspan(size);
      }
  }

  SharedBooks books_;
};

std::unique_ptr<KvExport> Engine::submit_export(GenerationRequest request, EventSink sink, int64_t end_token,
                                                KvProgressSink progress) {
  auto exported = std::make_unique<Export>(*state_);
  exported->open(request.id, end_token, std::move(progress));
  submit(std::move(request), std::move(sink));
  return exported;
}

void Engine::import_pages(KvImport pages, std::function<void(KvImported)> done) {
  state_->post([pages = std::move(pages), done = std::move(done)](EngineCore& core) {
    KvImported result;
    try {
      result = core.import_pages(pages);
    } catch (const std::exception& error) {  // a device's copy: the pages are computed here instead
      result = {false, error.what()};
    }
    done(std::move(result));
  });
}

void Engine::unpin(RequestId id) {
  state_->post([id](EngineCore& core) { core.unpin(id); });
}

void Engine::look_up(std::string cache_salt, std::vector<int32_t> text, std::function<void(int64_t)> done) {
  state_->post([cache_salt = std::move(cache_salt), text = std::move(text),
                done = std::move(done)](EngineCore& core) { done(core.cached_tokens(cache_salt, text)); });
}

void Engine::watch_cache(std::function<void(std::vector<PrefixChange>&&)> listener) {
  state_->post([listener = std::move(listener)](EngineCore& core) { core.watch_cache(listener); });
}

const KvFormat& Engine::kv_format() const { return state_->kv_format; }

}  // namespace cheetah
