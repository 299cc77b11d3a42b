// SPDX-License-Identifier: MIT
#include "load/load_client.h"

#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "base/error.h"
#include "base/format.h"
#include "load/completion_stream.h"
#include "net/http_client.h"

namespace cheetah {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostErrorBytes = 16 * 1024;
constexpr auto kObservePeriod = std::chrono::milliseconds(100);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Clock::time_point after(Clock::time_point start, double seconds) {
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Every stream is a descriptor: the soft limit of 1024 would end a large run.
void raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // refused: the run shows it as failed connections
}

RequestFailure failure_of(HttpFailure failure) {
  switch (failure) {
    case HttpFailure::kNone:
      return RequestFailure::kNone;
    case HttpFailure::kConnect:
      return RequestFailure::kConnect;
    case HttpFailure::kTimeout:
      return RequestFailure::kTimeout;
    case HttpFailure::kCut:
      return RequestFailure::kCut;
    case HttpFailure::kNotHttp:
      return RequestFailure::kNotAStream;
    case HttpFailure::kInterrupted:
      return RequestFailure::kInterrupted;
  }
  return RequestFailure::kCut;
}

// The answer to one request of a load, on its way into its record.
class LiveRequest : public ResponseHandler {
 public:
  using Ended = std::function<void(RequestRecord)>;
  LiveRequest(
      Clock::time_point start, RequestRecord record, bool empty_counts, int64_t& num_events, Ended ended)
      : start_(start),
        record_(std::move(record)),
        num_events_(num_events),
        ended_(std::move(ended)),
        stream_(record_, empty_counts) {}

  void on_head(int status, const std::string& content_type) override {
    record_.http_status = status;
    is_stream_ = status == 200 && content_type.starts_with("text/event-stream");
  }

  void on_body(std::string_view bytes) override {
    const int64_t before = record_.events;
    if (is_stream_)
      stream_.feed(bytes, seconds_since(start_));
    else
      error_.append(bytes.substr(0, kMostErrorBytes - error_.size()));
    num_events_ += record_.events - before;
  }

  void on_done(const HttpOutcome& outcome) override {
    record_.done_s = seconds_since(start_);
    if (record_.ok()) judge(outcome);
    ended_(std::move(record_));
  }

 private:
  void judge(const HttpOutcome& outcome) {
    // Some servers reset the connection after the last event: the answer is whole all the same.
    if (outcome.failure == HttpFailure::kCut && stream_.said_done()) return stream_.finish();
    if (outcome.failure != HttpFailure::kNone) return fail(failure_of(outcome.failure), outcome.detail);
    if (record_.http_status != 200) return fail(RequestFailure::kStatus, error_message_of(error_));
    if (!is_stream_)
      return fail(RequestFailure::kNotAStream, "the answer is not text/event-stream: " + printable(error_));
    stream_.finish();
  }
  void fail(RequestFailure failure, std::string detail) {
    record_.failure = failure;
    record_.detail = std::move(detail);
  }

  Clock::time_point start_;
  RequestRecord record_;
  int64_t& num_events_;
  Ended ended_;
  CompletionStream stream_;
  std::string error_;
  bool is_stream_ = false;
};

// The whole body of one answer.
class WholeAnswer : public ResponseHandler {
 public:
  void on_head(int status, const std::string&) override { status_ = status; }
  void on_body(std::string_view bytes) override {
    constexpr size_t kMostBytes = size_t{16} << 20;
    body_.append(bytes.substr(0, kMostBytes - body_.size()));
  }
  void on_done(const HttpOutcome& outcome) override { outcome_ = outcome; }

  Json json(const std::string& url) const {
    if (outcome_.failure != HttpFailure::kNone)
      throw Error(format("{}: {}: {}", url, name_of(failure_of(outcome_.failure)), outcome_.detail));
    if (status_ != 200) throw Error(format("{}: HTTP {}: {}", url, status_, error_message_of(body_)));
    return parse_json(body_, url);
  }

 private:
  int status_ = 0;
  std::string body_;
  HttpOutcome outcome_;
};

// The server under load.
struct Server {
  explicit Server(const ServerOptions& how)
      : options(how),
        http(context, {.url = how.url,
                          .tls = {.accept_any_certificate = how.tls_insecure},
                          .user_agent = "cheetah-bench"}) {
    http.look_up();
    if (!options.api_key.empty()) headers.push_back({"Authorization", "Bearer " + options.api_key});
  }

  void send(std::string_view method, const std::string& path, std::string body,
      std::shared_ptr<ResponseHandler> handler) {
    ClientRequest request{.method = std::string(method),
        .path = path,
        .body = std::move(body),
        .headers = headers,
        .timeout_s = options.timeout_s};
    if (method == "POST") request.headers.push_back({"Content-Type", "application/json"});
    http.send(request, std::move(handler));
  }

  ServerOptions options;
  asio::io_context context{1};
  HttpClient http;
  std::vector<std::pair<std::string, std::string>> headers;
};

// One run: decides when each request leaves and gathers the records.
class LoadRun {
 public:
  LoadRun(Server& server, const LoadPlan& plan, const std::function<bool(const LoadProgress&)>& observe)
      : server_(server),
        plan_(plan),
        observe_(observe),
        sender_(server.context),
        observer_(server.context),
        start_(Clock::now()) {}

  void begin() {
    prepare();
    send_due();
    watch();
  }
  std::vector<RequestRecord> take_records() { return std::move(records_); }

 private:
  bool open_loop() const { return !plan_.arrivals.empty(); }
  bool all_sent() const { return stopped_ || next_ >= plan_.total(); }
  bool has_slot() const { return plan_.concurrency == 0 || running_ < plan_.concurrency; }

  // The body is made before it is due, so that making it delays nothing.
  void prepare() {
    if (!all_sent()) prepared_ = plan_.request(next_);
  }

  void send_due() {
    while (!all_sent() && has_slot()) {
      const double now = seconds_since(start_);
      if (!open_loop() && now > plan_.duration_s) {
        stopped_ = true;
        break;
      }
      const double scheduled =
          open_loop() ? plan_.arrivals[static_cast<size_t>(next_)] : std::max(now, slot_free_s_);
      if (scheduled > now) return wait_until(scheduled);
      send(scheduled);
    }
    if (all_sent() && running_ == 0) observer_.cancel();
  }

  void wait_until(double scheduled) {
    sender_.expires_at(after(start_, scheduled));
    sender_.async_wait([this](const boost::system::error_code& error) {
      if (!error) send_due();
    });
  }

  void send(double scheduled) {
    RequestRecord record;
    record.scheduled_s = scheduled;
    record.due_s = std::max(scheduled, slot_free_s_);
    record.asked_tokens = prepared_.asked_tokens;
    record.sent_s = seconds_since(start_);
    ++next_;
    ++running_;
    auto live = std::make_shared<LiveRequest>(start_, std::move(record), plan_.empty_events_count,
        num_events_, [this](RequestRecord ended) { on_ended(std::move(ended)); });
    server_.send("POST", plan_.path, std::move(prepared_.body), std::move(live));
    prepare();
  }

  void on_ended(RequestRecord record) {
    const bool was_full = !has_slot();
    --running_;
    if (!record.ok()) ++num_failed_;
    if (was_full) slot_free_s_ = seconds_since(start_);
    records_.push_back(std::move(record));
    if (was_full || (all_sent() && running_ == 0)) send_due();
  }

  void watch() {
    if (all_sent() && running_ == 0) return;
    observer_.expires_after(kObservePeriod);
    observer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      if (!observe_(progress())) stop();
      watch();
    });
  }

  void stop() {
    stopped_ = true;
    sender_.cancel();
    server_.http.interrupt();
  }

  LoadProgress progress() const {
    return {.elapsed_s = seconds_since(start_),
        .sent = next_,
        .running = running_,
        .done = static_cast<int64_t>(records_.size()),
        .failed = num_failed_,
        .events = num_events_};
  }

  Server& server_;
  const LoadPlan& plan_;
  const std::function<bool(const LoadProgress&)>& observe_;
  asio::steady_timer sender_, observer_;
  Clock::time_point start_;
  PreparedRequest prepared_;
  std::vector<RequestRecord> records_;
  int64_t next_ = 0, running_ = 0, num_failed_ = 0, num_events_ = 0;
  double slot_free_s_ = 0;  // when the last of all slots in use came free
  bool stopped_ = false;
};

}  // namespace

Url parse_server_url(const std::string& text) { return parse_url(text, {.path = "/v1"}); }

struct LoadClient::State {
  explicit State(const ServerOptions& options) : server(options) {}
  void run_context() {
    server.context.restart();
    server.context.run();
  }
  Server server;
};

LoadClient::LoadClient(const ServerOptions& options) {
  raise_descriptor_limit();
  state_ = std::make_unique<State>(options);
}

LoadClient::~LoadClient() = default;

Json LoadClient::get_json(const std::string& path) {
  auto answer = std::make_shared<WholeAnswer>();
  state_->server.send("GET", path, "", answer);
  state_->run_context();
  return answer->json(state_->server.options.url.text() + path);
}

RequestRecord LoadClient::probe(const std::string& path, const PreparedRequest& request) {
  LoadPlan plan{
      .path = path, .request = [&](int64_t) { return request; }, .num_requests = 1, .concurrency = 1};
  return std::move(run(plan, [](const LoadProgress&) { return true; }).records.at(0));
}

LoadResult LoadClient::run(const LoadPlan& plan, const std::function<bool(const LoadProgress&)>& observe) {
  const double cpu_before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  LoadRun load(state_->server, plan, observe);
  load.begin();
  state_->run_context();
  LoadResult result{.records = load.take_records(), .client = {}};
  const double wall = seconds_since(begin);
  if (wall > 0) result.client.cpu_share = (cpu_seconds() - cpu_before) / wall;
  return result;
}

}  // namespace cheetah
