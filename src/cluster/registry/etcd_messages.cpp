// SPDX-License-Identifier: MIT
#include "cluster/registry/etcd_messages.h"

#include <limits>

#include "base/base64.h"
#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::cluster::etcd {
namespace {

constexpr std::string_view kWhat = "the answer of etcd";

// The gateway writes 64-bit numbers as strings and leaves zeros out.
int64_t number_in(const JsonFields& fields, std::string_view name) {
  const Json* value = fields.find(name);
  if (value == nullptr) return 0;
  if (value->is_number_integer())
    return fields.integer(name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  const auto number = to_integer(fields.string(name));
  if (!number) throw Error(format("{}: {}: expected a number", fields.what(), name));
  return *number;
}

std::string bytes_in(const JsonFields& fields, std::string_view name) {
  auto bytes = from_base64(fields.string_or(name, ""));
  if (!bytes) throw Error(format("{}: {}: expected base64", fields.what(), name));
  return std::move(*bytes);
}

const Json& array_in(const JsonFields& fields, std::string_view name) {
  static const Json kEmpty = Json::array();
  const Json* value = fields.find(name);
  if (value == nullptr) return kEmpty;
  if (!value->is_array()) throw Error(format("{}: {}: expected an array", fields.what(), name));
  return *value;
}

const Json& object_in(const JsonFields& fields, std::string_view name) {
  const Json* value = fields.find(name);
  if (value == nullptr) throw Error(format("{}: {}: expected an object", fields.what(), name));
  return *value;
}

int64_t revision_in(const JsonFields& fields) {
  const Json* header = fields.find("header");
  return header == nullptr ? 0 : number_in(JsonFields(*header, fields.what()), "revision");
}

RegistryEntry entry_in(const Json& json, std::string_view root) {
  const JsonFields fields(json, std::string(kWhat));
  std::string key = bytes_in(fields, "key");
  if (!starts_with(key, root))
    throw Error(format("{}: key \"{}\": expected one under {}", kWhat, printable(key), root));
  const int64_t revision = number_in(fields, "mod_revision");
  if (revision <= 0) throw Error(format("{}: mod_revision {}: expected one above 0", kWhat, revision));
  return {key.substr(root.size()), bytes_in(fields, "value"), revision};
}

std::string full_key(std::string_view root, std::string_view key) {
  return base64_of(std::string(root).append(key));
}

}  // namespace

std::string root_of(std::string_view cluster) { return format("/cheetah/{}/", cluster); }

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // no key is above them all: etcd reads this as "to the end"
  ++end.back();
  return end;
}

Json range_request(std::string_view root) {
  return {{"key", base64_of(root)}, {"range_end", base64_of(end_of_prefix(root))}};
}

Range read_range(const Json& answer, std::string_view root) {
  const JsonFields fields(answer, std::string(kWhat));
  Range range;
  range.revision = revision_in(fields);
  if (range.revision <= 0) throw Error(format("{}: header.revision: expected one above 0", kWhat));
  for (const Json& json : array_in(fields, "kvs")) {
    RegistryEntry entry = entry_in(json, root);
    range.entries[entry.key] = entry;
  }
  return range;
}

Json watch_request(std::string_view root, int64_t start_revision) {
  Json create = range_request(root);
  create["start_revision"] = std::to_string(start_revision);
  create["progress_notify"] = true;
  return {{"create_request", create}};
}

WatchAnswer read_watch(const Json& line, std::string_view root) {
  const JsonFields outer(line, std::string(kWhat));
  if (const Json* error = outer.find("error"))
    throw Error(format("etcd ended the watch: {}", printable(dump_json(*error), 200)));
  const JsonFields fields(object_in(outer, "result"), std::string(kWhat));
  WatchAnswer watch;
  watch.revision = revision_in(fields);
  watch.created = fields.boolean_or("created", false);
  watch.canceled = fields.boolean_or("canceled", false);
  for (const Json& json : array_in(fields, "events")) {
    const JsonFields event(json, std::string(kWhat));
    watch.changes.push_back(
        {event.string_or("type", "PUT") == "DELETE", entry_in(object_in(event, "kv"), root)});
  }
  return watch;
}

Json put_request(std::string_view root, std::string_view key, std::string_view value, int64_t lease) {
  Json put = {{"key", full_key(root, key)}, {"value", base64_of(value)}};
  if (lease != 0) put["lease"] = std::to_string(lease);
  return put;
}

Json delete_request(std::string_view root, std::string_view key) { return {{"key", full_key(root, key)}}; }

// Where an expectation fails, the answer brings what is there instead.
Json transaction_request(std::string_view root, const Transaction& transaction, int64_t lease) {
  Json compare = Json::array(), success = Json::array(), failure = Json::array();
  for (const auto& [key, revision] : transaction.expect) {
    compare.push_back({{"key", full_key(root, key)}, {"target", "MOD"}, {"result", "EQUAL"},
        {"mod_revision", std::to_string(revision)}});
    failure.push_back({{"request_range", delete_request(root, key)}});
  }
  for (const auto& write : transaction.writes) {
    if (write.value)
      success.push_back(
          {{"request_put", put_request(root, write.key, *write.value, write.leased ? lease : 0)}});
    else
      success.push_back({{"request_delete_range", delete_request(root, write.key)}});
  }
  return {{"compare", compare}, {"success", success}, {"failure", failure}};
}

TransactionResult read_transaction(const Json& answer, std::string_view root) {
  const JsonFields fields(answer, std::string(kWhat));
  TransactionResult result;
  if (fields.boolean_or("succeeded", false)) {
    result.kind = TransactionResult::Kind::kDone;
    result.revision = revision_in(fields);
    return result;
  }
  result.kind = TransactionResult::Kind::kConflict;
  for (const Json& response : array_in(fields, "responses")) {
    const JsonFields part(response, std::string(kWhat));
    const JsonFields range(object_in(part, "response_range"), std::string(kWhat));
    for (const Json& json : array_in(range, "kvs")) result.current.push_back(entry_in(json, root));
  }
  return result;
}

Json lease_request(int64_t lease) { return {{"ID", std::to_string(lease)}}; }
Json grant_request(int64_t ttl_s) { return {{"TTL", std::to_string(ttl_s)}}; }

Lease read_grant(const Json& answer) {
  const JsonFields fields(answer, std::string(kWhat));
  const Lease lease{number_in(fields, "ID"), number_in(fields, "TTL")};
  if (lease.id == 0 || lease.ttl_s <= 0 || lease.ttl_s > 1'000'000)
    throw Error(format("{}: lease {} for {} s: expected an id and a time", kWhat, lease.id, lease.ttl_s));
  return lease;
}

Lease read_keep_alive(const Json& answer) {
  const JsonFields outer(answer, std::string(kWhat));
  const JsonFields fields(object_in(outer, "result"), std::string(kWhat));
  return {number_in(fields, "ID"), number_in(fields, "TTL")};
}

}  // namespace cheetah::cluster::etcd
