// SPDX-License-Identifier: MIT
#include "serve/response_store.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <future>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace cheetah {
namespace {

constexpr int64_t kFormat = 1;  // PRAGMA user_version
constexpr int kMaxTurns = 1000;

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS responses (
  tenant TEXT NOT NULL, id TEXT NOT NULL, previous TEXT NOT NULL, created INTEGER NOT NULL, bytes INTEGER NOT NULL,
  input TEXT NOT NULL, response TEXT NOT NULL, PRIMARY KEY (tenant, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS responses_by_age ON responses(created);
CREATE INDEX IF NOT EXISTS responses_by_tenant ON responses(tenant, created, bytes);
PRAGMA user_version = 1;
)";

// A prepared statement; values are bound in their order.
class Statement {
 public:
  Statement(sqlite3* file, const char* sql) : file_(file) {
    if (sqlite3_prepare_v2(file, sql, -1, &handle_, nullptr) != SQLITE_OK) fail();
  }
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& value) {
    if (sqlite3_bind_text64(handle_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) !=
        SQLITE_OK)
      fail();
    return *this;
  }
  Statement& bind(int64_t value) {
    if (sqlite3_bind_int64(handle_, ++bound_, value) != SQLITE_OK) fail();
    return *this;
  }
  bool step() {  // true: there is a row
    const int status = sqlite3_step(handle_);
    if (status != SQLITE_ROW && status != SQLITE_DONE) fail();
    return status == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
    return text ? std::string(text, static_cast<size_t>(sqlite3_column_bytes(handle_, column))) : "";
  }
  int64_t integer(int column) const { return sqlite3_column_int64(handle_, column); }

 private:
  [[noreturn]] void fail() const { throw Error(sqlite3_errmsg(file_)); }
  sqlite3* file_;
  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
};

// Of all items of a turn, in the order of the conversation.
void append_items(const std::string& json, OrderedJson& items) {
  const OrderedJson all = OrderedJson::parse(json, nullptr, false);
  if (all.is_array())
    for (const OrderedJson& item : all) items.push_back(item);
}

}  // namespace

void ResponseStore::Close::operator()(sqlite3* file) const { sqlite3_close(file); }

ResponseStore::ResponseStore(const ResponseStoreConfig& config, EventLog& log) : config_(config), log_(log) {
  try {
    open();
  } catch (const Error& error) {
    throw Error(format("--response-store {}: {}", printable(config.path), error.what()));
  }
  thread_ = std::thread([this] { loop(); });
}

ResponseStore::~ResponseStore() {
  inbox_.close();
  thread_.join();
}

void ResponseStore::open() {
  // Others on this machine may not read what was said; the files beside it get the same rights.
  const UniqueFd made(::open(config_.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!made) throw Error(std::strerror(errno));
  sqlite3* file = nullptr;
  const int status = sqlite3_open_v2(config_.path.c_str(), &file, SQLITE_OPEN_READWRITE, nullptr);
  file_.reset(file);
  if (status != SQLITE_OK) throw Error(file ? sqlite3_errmsg(file) : "out of memory");
  sqlite3_busy_timeout(file, 5000);
  const auto number = [file](const char* sql) {
    Statement query(file, sql);
    return query.step() ? query.integer(0) : 0;
  };
  const int64_t found = number("PRAGMA user_version");
  if (found > kFormat) throw Error("it was written by a newer version of this program");
  if (found == 0 &&
      number("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name != 'responses'") > 0)
    throw Error("it is another program's database");
  execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  execute(kSchema);
  bytes_ = INT64_MAX;  // to be counted
  trim();
}

void ResponseStore::execute(const char* sql) const {
  if (sqlite3_exec(file_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    throw Error(sqlite3_errmsg(file_.get()));
}

void ResponseStore::loop() {
  std::vector<Task> tasks;
  while (inbox_.wait()) {
    inbox_.take_all(tasks);
    for (Task& task : tasks) task();
    tasks.clear();
  }
}

void ResponseStore::keep(const std::string& tenant, KeptResponse response) {
  inbox_.post([this, tenant, response = std::move(response)] {
    try {
      insert(tenant, response);
      trim();
    } catch (const Error& error) {
      log_.write(LogLevel::kError, "response_not_kept", {{"response", response.id}, {"why", error.what()}});
    }
  });
}

void ResponseStore::insert(const std::string& tenant, const KeptResponse& response) {
  Statement(file_.get(), "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(tenant)
      .bind(response.id)
      .bind(response.previous)
      .bind(response.created)
      .bind(static_cast<int64_t>(response.input.size() + response.response.size()))
      .bind(response.input)
      .bind(response.response)
      .step();
  bytes_ += static_cast<int64_t>(response.input.size() + response.response.size());
}

// Whatever is too old, and then the oldest of the key that has most until the rest fits. bytes_ is never too small: it is
// counted anew where it seems too much.
void ResponseStore::trim() {
  Statement(file_.get(), "DELETE FROM responses WHERE created < ?")
      .bind(unix_seconds() - static_cast<int64_t>(config_.age_s))
      .step();
  while (bytes_ > config_.bytes) {
    Statement total(file_.get(), "SELECT coalesce(sum(bytes), 0) FROM responses");
    bytes_ = total.step() ? total.integer(0) : 0;
    if (bytes_ <= config_.bytes) break;
    Statement(file_.get(),
        "DELETE FROM responses WHERE (tenant, id) IN (SELECT tenant, id FROM responses WHERE tenant = "
        "(SELECT tenant FROM responses GROUP BY tenant ORDER BY sum(bytes) DESC LIMIT 1) ORDER BY created, id LIMIT 8)")
        .step();
  }
  execute("PRAGMA incremental_vacuum");
}

std::optional<KeptResponse> ResponseStore::read(const std::string& tenant, const std::string& id) const {
  Statement query(
      file_.get(), "SELECT previous, created, input, response FROM responses WHERE tenant = ? AND id = ?");
  if (!query.bind(tenant).bind(id).step()) return std::nullopt;
  KeptResponse found{.id = id,
      .previous = query.text(0),
      .created = query.integer(1),
      .input = query.text(2),
      .response = query.text(3)};
  if (found.created < unix_seconds() - static_cast<int64_t>(config_.age_s)) return std::nullopt;
  return found;
}

void ResponseStore::remove(const std::string& tenant, const std::string& id) {
  Statement(file_.get(), "DELETE FROM responses WHERE tenant = ? AND id = ?").bind(tenant).bind(id).step();
}

void ResponseStore::find(std::string tenant, std::string id, std::function<void(Found)> done) {
  const bool posted = inbox_.post([this, tenant = std::move(tenant), id = std::move(id), done] {
    Found found;
    try {
      found.response = read(tenant, id);
    } catch (const Error& error) {
      log_.write(LogLevel::kError, "response_store_failed", {{"response", id}, {"why", error.what()}});
      found.failed = true;
    }
    done(std::move(found));
  });
  if (!posted) done({.response = std::nullopt, .failed = true});
}

void ResponseStore::erase(std::string tenant, std::string id, std::function<void(Found)> done) {
  find(tenant, id, [this, tenant, id, done](Found found) {
    try {
      if (found.response) remove(tenant, id);
    } catch (const Error& error) {
      log_.write(LogLevel::kError, "response_store_failed", {{"response", id}, {"why", error.what()}});
      found.failed = true;
    }
    done(std::move(found));
  });
}

std::optional<OrderedJson> ResponseStore::conversation(const std::string& tenant, const std::string& id) {
  std::vector<KeptResponse> turns;  // newest first
  for (std::string next = id; !next.empty();) {
    auto answer = std::make_shared<std::promise<Found>>();  // shared with the call back
    find(tenant, next, [answer](Found given) { answer->set_value(std::move(given)); });
    Found found = answer->get_future().get();
    if (found.failed) throw Error("the responses that were kept cannot be read now");
    if (!found.response || std::ssize(turns) >= kMaxTurns) return std::nullopt;
    next = found.response->previous;
    turns.push_back(std::move(*found.response));
  }
  OrderedJson items = OrderedJson::array();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    append_items(turn->input, items);
    const OrderedJson response = OrderedJson::parse(turn->response, nullptr, false);
    if (response.is_object() && response.contains("output")) append_items(response["output"].dump(), items);
  }
  return items;
}

}  // namespace cheetah
