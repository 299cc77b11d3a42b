// SPDX-License-Identifier: MIT
#include "serve/batch_jobs.h"

#include <algorithm>
#include <array>
#include <future>

#include "base/error.h"
#include "base/format.h"
#include "serve/api/failure.h"
#include "serve/api/fields.h"
#include "serve/api/request_fields.h"
#include "serve/http/multipart.h"
#include "serve/model_pool.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 30;  // of all files
constexpr size_t kMaxBatches = 10'000;

int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

HttpResponse json_of(const Json& value) {
  HttpResponse response;
  response.body = dump_json(value);
  return response;
}

HttpResponse refusal(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_body(error, ApiStyle::kOpenAi);
  return response;
}

HttpResponse absent(const char* what, const std::string& id) {
  return refusal(
      {.status = 404, .message = format("there is no {} '{}'", what, printable(id)), .code = "not_found"});
}

Json moment(int64_t time) { return time == 0 ? Json(nullptr) : Json(time); }
Json name_or_null(const std::string& name) { return name.empty() ? Json(nullptr) : Json(name); }

struct Wanted {
  std::string input, endpoint, window;
  Json metadata;
};

std::optional<ApiError> read_wanted(std::string_view body, Wanted& wanted) {
  const ApiResult read = guarded([&] {
    const OrderedJson json = parse_body(body);
    Fields fields(json, "");
    wanted.input = fields.required_string("input_file_id", 256);
    wanted.endpoint = fields.required_string("endpoint", 256);
    wanted.window = fields.string("completion_window", 32).value_or("24h");
    if (const OrderedJson* metadata = fields.object("metadata"))
      wanted.metadata = Json::parse(dump_ordered(*metadata));
    constexpr std::array<std::string_view, 7> kEndpoints = {"/v1/chat/completions", "/v1/completions",
        "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/score", "/v1/rerank"};
    if (std::ranges::find(kEndpoints, wanted.endpoint) == kEndpoints.end())
      refuse("invalid_value", "endpoint",
          format("endpoint must be one of {}, got \"{}\"", fmt::join(kEndpoints, ", "),
              printable(wanted.endpoint)));
    return ApiCall{};
  });
  const auto* error = std::get_if<ApiError>(&read);
  return error ? std::optional(*error) : std::nullopt;
}

}  // namespace

BatchJobs::BatchJobs(ServerShared& shared) : shared_(shared) {}
BatchJobs::~BatchJobs() { stop(); }

void BatchJobs::stop() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
}

Json BatchJobs::file_json(const std::string& id, const File& file) {
  return {{"id", id}, {"object", "file"}, {"bytes", file.bytes->size()}, {"created_at", file.created},
      {"filename", file.name}, {"purpose", file.purpose}, {"status", "processed"}};
}

Json BatchJobs::batch_json(const std::string& id, const Batch& batch) {
  const auto at = [&](const char* status) {
    return batch.status == status ? moment(batch.ended) : Json(nullptr);
  };
  return {{"id", id}, {"object", "batch"}, {"endpoint", batch.endpoint}, {"errors", nullptr},
      {"input_file_id", batch.input}, {"completion_window", batch.window}, {"status", batch.status},
      {"output_file_id", name_or_null(batch.output)}, {"error_file_id", name_or_null(batch.errors)},
      {"created_at", batch.created}, {"in_progress_at", moment(batch.started)},
      {"completed_at", at("completed")}, {"failed_at", at("failed")}, {"cancelled_at", at("cancelled")},
      {"expires_at", nullptr},
      {"request_counts", {{"total", batch.counts.total}, {"completed", batch.counts.completed},
                             {"failed", batch.counts.failed}}},
      {"metadata", batch.metadata}};
}

std::string BatchJobs::add_file(File file) {
  return store_.with([&](Store& store) -> std::string {
    const int64_t bytes = std::ssize(*file.bytes);
    if (store.bytes + bytes > kMaxBytes) return "";
    store.bytes += bytes;
    std::string id = format("file-{:012x}", store.next++);
    store.files.emplace(id, std::move(file));
    return id;
  });
}

HttpResponse BatchJobs::upload(const HttpRequest& request, const std::string& tenant) {
  const std::string* type = request.find("content-type");
  const auto parts = type ? parse_form(*type, request.body) : std::nullopt;
  if (!parts)
    return refusal({.message = "the body must be multipart/form-data with the fields file and purpose",
        .code = "invalid_form"});
  File file{.tenant = tenant, .name = "", .purpose = "", .created = unix_now(), .bytes = nullptr};
  for (const FormPart& part : *parts) {
    if (part.name == "purpose") file.purpose = part.content;
    if (part.name != "file") continue;
    file.name = part.filename;
    file.bytes = std::make_shared<const std::string>(part.content);
  }
  if (!file.bytes || file.purpose.empty())
    return refusal({.message = format("the field {} is missing", file.bytes ? "purpose" : "file"),
        .param = file.bytes ? "purpose" : "file",
        .code = "missing_parameter"});
  const File kept = file;
  const std::string id = add_file(std::move(file));
  if (id.empty())
    return refusal({.status = 413,
        .message = "the files of this server fill their 1 GiB: delete some",
        .code = "storage_full"});
  return json_of(file_json(id, kept));
}

HttpResponse BatchJobs::files(const HttpRequest& request, const std::string& tenant, const std::string& id) {
  if (request.method == "POST") return upload(request, tenant);
  return store_.with([&](Store& store) {
    if (id.empty()) {
      Json list = Json::array();
      for (const auto& [name, file] : store.files)
        if (file.tenant == tenant) list.push_back(file_json(name, file));
      return json_of({{"object", "list"}, {"data", std::move(list)}, {"has_more", false}});
    }
    const size_t slash = id.find('/');
    const std::string name = id.substr(0, slash);
    const auto file = store.files.find(name);
    const bool content = slash != std::string::npos && id.substr(slash) == "/content";
    if (file == store.files.end() || file->second.tenant != tenant ||
        (slash != std::string::npos && !content))
      return absent("file", id);
    if (request.method == "DELETE") {
      store.bytes -= std::ssize(*file->second.bytes);
      store.files.erase(file);
      return json_of({{"id", name}, {"object", "file"}, {"deleted", true}});
    }
    if (!content) return json_of(file_json(name, file->second));
    HttpResponse response;
    response.content_type = "application/octet-stream";
    response.body = *file->second.bytes;
    return response;
  });
}

HttpResponse BatchJobs::create(const HttpRequest& request, const Tenant& tenant) {
  Wanted wanted;
  if (const auto error = read_wanted(request.body, wanted)) return refusal(*error);
  std::string id;
  Batch batch;
  batch.tenant = tenant.name();
  batch.cache_salt = tenant.cache_salt();
  batch.endpoint = wanted.endpoint;
  batch.input = wanted.input;
  batch.window = wanted.window;
  batch.metadata = wanted.metadata;
  batch.created = unix_now();
  HttpResponse response = store_.with([&](Store& store) {
    const auto file = store.files.find(wanted.input);
    if (file == store.files.end() || file->second.tenant != tenant.name())
      return refusal(
          {.message = format("input_file_id \"{}\" is not a file that was uploaded", printable(wanted.input)),
              .param = "input_file_id",
              .code = "invalid_value"});
    if (store.batches.size() >= kMaxBatches)
      return refusal(
          {.status = 503, .message = "too many batches are kept: try again later", .code = "overloaded"});
    id = format("batch_{:012x}", store.next++);
    store.batches.emplace(id, batch);
    return json_of(batch_json(id, batch));
  });
  if (!id.empty()) queue_.post(id);
  return response;
}

HttpResponse BatchJobs::batches(const HttpRequest& request, const Tenant& tenant, const std::string& id) {
  if (request.method == "POST" && id.empty()) return create(request, tenant);
  return store_.with([&](Store& store) {
    if (id.empty()) {
      Json list = Json::array();
      for (const auto& [name, batch] : store.batches)
        if (batch.tenant == tenant.name()) list.push_back(batch_json(name, batch));
      return json_of({{"object", "list"}, {"data", std::move(list)}, {"has_more", false}});
    }
    const size_t slash = id.find('/');
    const std::string name = id.substr(0, slash);
    const auto at = store.batches.find(name);
    const bool cancel =
        slash != std::string::npos && id.substr(slash) == "/cancel" && request.method == "POST";
    if (at == store.batches.end() || at->second.tenant != tenant.name() ||
        cancel != (slash != std::string::npos || request.method == "POST"))
      return absent("batch", id);
    Batch& batch = at->second;
    if (cancel && batch.ended == 0) {
      batch.cancelled = true;
      batch.status = "cancelling";
    }
    return json_of(batch_json(name, batch));
  });
}

void BatchJobs::loop() {
  std::vector<std::string> ids;
  while (queue_.wait() && !queue_.closed()) {
    queue_.take_all(ids);
    for (const std::string& id : ids)
      if (!queue_.closed()) run_safely(id);
  }
}

void BatchJobs::run_safely(const std::string& id) {
  try {
    run(id);
  } catch (const std::exception& error) {
    shared_.log.write(LogLevel::kError, "batch_failed", {{"batch", id}, {"why", error.what()}});
    store_.with([&](Store& store) {
      Batch& kept = store.batches.at(id);
      kept.status = "failed";
      kept.ended = unix_now();
    });
  }
}

// Of a server with several models the one that the first line names: all lines are for the same.
std::shared_ptr<const Backend> BatchJobs::backend_for(const std::string& input) {
  ModelPool* const pool = shared_.pool;
  if (!pool) return shared_.first_backend();
  const Json line = Json::parse(input.substr(0, input.find('\n')), nullptr, false);
  ModelPool::Wish wish;
  if (line.is_object() && line.contains("body") && line["body"].is_object() &&
      line["body"].contains("model") && line["body"]["model"].is_string())
    wish.model = line["body"]["model"];
  auto answer = std::make_shared<std::promise<ModelPool::Answer>>();  // shared with the call back
  pool->acquire(wish, [answer](ModelPool::Answer given) { answer->set_value(std::move(given)); });
  ModelPool::Answer given = answer->get_future().get();
  if (const auto* error = std::get_if<ApiError>(&given)) throw Error(error->message);
  return std::get<ModelLease>(std::move(given));
}

void BatchJobs::run(const std::string& id) {
  std::shared_ptr<const std::string> input;
  Batch batch;
  store_.with([&](Store& store) {
    Batch& kept = store.batches.at(id);
    if (const auto file = store.files.find(kept.input); file != store.files.end()) input = file->second.bytes;
    kept.started = unix_now();
    if (!kept.cancelled) kept.status = "in_progress";
    batch = kept;
  });
  const std::shared_ptr<const Backend> backend = input ? backend_for(*input) : nullptr;
  std::string answers, errors;
  bool cancelled = batch.cancelled;
  BatchCounts counts;
  if (backend && input) {
    BatchRun work(backend->engine, backend->models(),
        {.id = id,
            .endpoint = batch.endpoint,
            .cache_salt = batch.cache_salt,
            .tenant = batch.tenant,
            .next_request = [this] { return shared_.next_request++; },
            .window = backend->engine.config().max_sequences});
    size_t at = 0;
    counts = work.run(
        [&]() -> std::optional<std::string> {
          if (at >= input->size()) return std::nullopt;
          const size_t end = std::min(input->find('\n', at), input->size());
          std::string line = input->substr(at, end - at);
          at = end + 1;
          return line;
        },
        [&](const std::string& line, const BatchCounts& now) {
          (now.failed > counts.failed ? errors : answers) += line + "\n";
          counts = now;
          store_.with([&](Store& store) { store.batches.at(id).counts = now; });
        },
        [&] {
          cancelled = cancelled || store_.with([&](Store& store) { return store.batches.at(id).cancelled; });
          return cancelled || queue_.closed() || shared_.state == ServerState::kDraining;
        });
  }
  const auto keep = [&](std::string text, const char* name) -> std::string {
    if (text.empty()) return "";
    return add_file({.tenant = batch.tenant,
        .name = format("{}_{}.jsonl", id, name),
        .purpose = "batch_output",
        .created = unix_now(),
        .bytes = std::make_shared<const std::string>(std::move(text))});
  };
  const bool had_answers = !answers.empty();
  const std::string output = keep(std::move(answers), "output"),
                    error_file = keep(std::move(errors), "error");
  store_.with([&](Store& store) {
    Batch& kept = store.batches.at(id);
    kept.counts = counts;
    kept.output = output;
    kept.errors = error_file;
    kept.ended = unix_now();
    kept.status = cancelled                                   ? "cancelled"
                  : !input || (had_answers && output.empty()) ? "failed"
                                                              : "completed";
  });
}

}  // namespace cheetah
