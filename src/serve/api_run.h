// SPDX-License-Identifier: MIT
#pragma once
// One call of the API from its body to the last byte of its answer. Belongs to the connection's network
// thread; a parser thread reads the body, the engine thread only drops events into the inbox.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mailbox.h"
#include "engine/tags/cluster_times.h"
#include "engine/tags/request_origin.h"
#include "observe/trace.h"
#include "serve/api/model_choice.h"
#include "serve/backend.h"
#include "serve/http/exchange.h"
#include "serve/routes.h"
#include "serve/stream_place.h"

namespace cheetah {

// What became of a call, for its log line and its trace.
struct RunSummary {
  std::string id, tenant, path;
  int status = 0;
  bool stream = false;
  int64_t requests = 0, prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::string finish;  // stop, length, cancelled, deadline, error; "" without the engine
  std::string error_code;
  ServeTime start{}, parsed{}, first_token{}, end{};
  TracedRequest traced;  // without an operation: it was not understood
  TraceContext trace;    // with an exporter
  std::string span_id;
  SharedClusterTimes cluster;  // of the last request
};

class ApiRun final : public Notified, public ExchangeListener, public std::enable_shared_from_this<ApiRun> {
 public:
  struct Setting {
    const Route& route;
    std::shared_ptr<const Backend> backend;  // nullptr: the pool's for the model that the call names
    ServerShared& shared;
    std::shared_ptr<Tenant> tenant;      // acquired; released at the end
    std::vector<HttpHeader> headers;     // of every answer: the request id, CORS
    std::function<void(ApiRun&)> ended;  // nothing of it is left in the engine
  };
  ApiRun(Setting setting, HttpRequest request, std::shared_ptr<Exchange> exchange);

  void start();
  void cancel();  // by its client, over another connection
  const std::string& id() const { return summary_.id; }
  const Tenant& tenant() const { return *setting_.tenant; }
  const RunSummary& summary() const { return summary_; }
  const HttpRequest& request() const { return request_; }
  // Where the client of a cut stream says that it is; nullptr: it begins.
  static const std::string* place_header(const HttpRequest& request);

  void on_notified() override;
  void on_gone() override;
  void on_tick(ServeTime now) override;
  void on_backlog(bool full) override;

 private:
  struct Arrived {
    size_t index;
    GenerationEvent event;
  };
  void choose_model();
  void parse();
  void on_parsed(ChosenCall call);
  void take_result(ChosenCall call);
  CallFacts facts() const;
  // The engine has done nothing for the call and wants it for another model. Where it cannot be made for
  // that, it goes on as it is.
  void change_model(const std::string& name);
  void on_changed(const ApiServices& services, ApiResult result);
  void describe_request();
  // api_run_resume.cpp
  std::optional<ApiError> find_place();
  void parse_for_beginning(ChosenCall& call);
  std::optional<ApiError> check_place() const;
  void number_events();
  void say_what_client_has(size_t index, const GenerationRequest& request, RequestOrigin& origin) const;
  static ApiError internal_error();
  RequestOrigin origin() const;
  void submit();
  void send();
  void on_event(size_t index, GenerationEvent&& event, bool first);
  void take(size_t index, GenerationEvent& event);
  void note(const GenerationEvent& event);
  void finish();
  void fail(const ApiError& error);
  void cancel_all();
  void begin_stream();
  void respond(int status, std::string body, std::optional<double> retry_after_s = std::nullopt);
  ApiError error_of(const GenerationEvent& event) const;
  void end();
  HttpResponse head() const;

  Setting setting_;
  HttpRequest request_;
  std::shared_ptr<Exchange> exchange_;
  ApiCall call_;
  const ApiServices* services_ = nullptr;      // of the model that answers
  std::optional<GenerationRequest> original_;  // of a call that may be made for another model
  std::string degraded_from_;                  // the model it was asked of, where another answers
  AnswerFacts answer_;
  std::optional<StreamPlace> from_;       // where the client was when its stream was cut
  std::optional<StreamNumbers> numbers_;  // of a stream that can go on elsewhere
  size_t choices_each_ = 1;               // of the call's requests
  bool has_key_ = false;                  // by which an answer can be asked for again
  std::vector<RequestId> ids_;
  int64_t left_ = 0;  // requests the engine has not finished
  int64_t pending_tokens_ = 0;
  bool answered_ = false;  // everything the client will get was handed over, or the client is gone
  bool cancelled_ = false;
  bool ended_ = false;
  ServeTime last_sent_;
  RunSummary summary_;

  Mailbox<Arrived> inbox_;  // from the engine thread
  std::vector<Arrived> batch_;
  std::atomic<bool> notified_ = false;
};

}  // namespace cheetah
