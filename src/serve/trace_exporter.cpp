#include "serve/trace_exporter.h"

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/mailbox.h"

namespace cheetah {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxWaiting = 4096;
constexpr auto kGather = std::chrono::milliseconds(500);  // spans of this long travel together
constexpr auto kSendLimit = std::chrono::seconds(5);
constexpr auto kLastLimit = std::chrono::seconds(2);
constexpr auto kComplainEvery = std::chrono::minutes(1);

// What is wrong, or "".
std::string post(const OtlpEndpoint& to, const std::string& body, Clock::duration limit) {
  boost::asio::ip::tcp::iostream stream;
  stream.expires_after(limit);
  stream.connect(to.host, to.port);
  if (!stream) return format("cannot connect: {}", stream.error().message());
  stream << format(
                "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                "Connection: close\r\n\r\n",
                to.path, to.host, to.port, body.size())
         << body << std::flush;
  std::string status;
  std::getline(stream, status);
  if (!stream) return format("no answer: {}", stream.error().message());
  const bool taken = status.size() > 9 && status[9] == '2';
  return taken ? "" : format("it answered '{}'", printable(status));
}

}  // namespace

OtlpEndpoint parse_otlp_endpoint(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme))
    throw UsageError(
        format("--otlp-endpoint: '{}' must begin with http:// (a local collector forwards to https)",
               printable(url, 256)));
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  OtlpEndpoint out{authority, "4318", rest.substr(slash)};
  const size_t colon = authority.rfind(':');
  if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    out.host = authority.substr(0, colon);
    out.port = authority.substr(colon + 1);
  }
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.path.empty() || out.path == "/") out.path = "/v1/traces";
  const bool is_port = !out.port.empty() && out.port.size() <= 5 &&
                       out.port.find_first_not_of("0123456789") == std::string::npos;
  if (out.host.empty() || !is_port || url.find_first_of(" \t\r\n") != std::string::npos)
    throw UsageError(
        format("--otlp-endpoint: '{}' is not an address such as http://localhost:4318", printable(url, 256)));
  return out;
}

struct TraceExporter::State {
  State(const OtlpEndpoint& where, const TraceResource& about, EventLog& lines)
      : endpoint(where), resource(about), log(lines), thread([this] { loop(); }) {}
  ~State() {
    box.close();
    thread.join();
  }

  void loop() {
    std::vector<TraceItem> batch;
    for (bool open = true; open;) {
      box.wait();
      if (!box.closed()) std::this_thread::sleep_for(kGather);
      open = !box.closed();
      box.take_all(batch);
      if (!batch.empty()) send(batch, open ? kSendLimit : kLastLimit);
    }
  }

  void send(const std::vector<TraceItem>& batch, Clock::duration limit) {
    const auto count = std::ssize(batch);
    waiting -= count;
    const std::string problem = post(endpoint, otlp_body(batch, resource), limit);
    (problem.empty() ? sent : lost) += count;
    if (problem.empty() || Clock::now() < next_complaint) return;
    next_complaint = Clock::now() + kComplainEvery;
    log.write(LogLevel::kWarning, "traces_not_sent",
              {{"collector", endpoint.host + ":" + endpoint.port}, {"why", problem}, {"spans", count}});
  }

  OtlpEndpoint endpoint;
  TraceResource resource;
  EventLog& log;
  Mailbox<TraceItem> box;
  std::atomic<int64_t> waiting = 0, sent = 0, lost = 0;
  Clock::time_point next_complaint{};
  std::thread thread;  // last: everything above is ready when it starts
};

TraceExporter::TraceExporter(const OtlpEndpoint& endpoint, const TraceResource& resource, EventLog& log)
    : state_(std::make_unique<State>(endpoint, resource, log)) {}
TraceExporter::~TraceExporter() = default;

void TraceExporter::add(TraceItem item) {
  if (++state_->waiting > kMaxWaiting) {
    --state_->waiting;
    ++state_->lost;
    return;
  }
  state_->box.post(std::move(item));
}

int64_t TraceExporter::num_sent() const { return state_->sent; }
int64_t TraceExporter::num_lost() const { return state_->lost; }

}  // namespace cheetah
