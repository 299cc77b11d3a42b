// SPDX-License-Identifier: MIT
#include "doctor/snapshot.h"

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace cheetah::doctor {
namespace {

constexpr const char* kSchema = "cheetah-doctor-snapshot-1";
constexpr std::string_view kPurposes[] = {"serve", "train", "bench"};

Absence absence_named(const std::string& name, const std::string& what) {
  if (name == "missing") return Absence::kMissing;
  if (name == "unreadable") return Absence::kUnreadable;
  throw Error(format("{}: '{}' is no kind of absence", what, printable(name)));
}

void load_texts(const Json& texts, const std::string& what, MemorySource& source) {
  for (const auto& [path, value] : texts.items()) {
    if (value.is_string()) {
      source.set(path, value.get<std::string>());
      continue;
    }
    const JsonFields fields(value, what);
    source.set({path, "", absence_named(fields.string("absent"), what), fields.string_or("reason", "")});
  }
}

}  // namespace

std::string_view name_of(Purpose purpose) { return kPurposes[static_cast<size_t>(purpose)]; }

Purpose purpose_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kPurposes); ++i)
    if (kPurposes[i] == name) return static_cast<Purpose>(i);
  throw Error(format("'{}' is no purpose: expected serve, train or bench", printable(name)));
}

std::string snapshot_json(const MemorySource& seen, const Intent& intent) {
  Json texts = Json::object(), links = Json::object(), lists = Json::object();
  for (const auto& [path, text] : seen.texts()) {
    if (text.ok())
      texts[path] = text.text;
    else
      texts[path] = {
          {"absent", text.absence == Absence::kMissing ? "missing" : "unreadable"}, {"reason", text.reason}};
  }
  for (const auto& [path, target] : seen.links()) links[path] = target;
  for (const auto& [path, names] : seen.lists()) lists[path] = names;
  const Json about = {{"purpose", name_of(intent.purpose)}, {"multi_node", intent.multi_node},
      {"pid", intent.pid}, {"data_path", intent.data_path}, {"checkpoint_path", intent.checkpoint_path},
      {"binary", intent.binary}, {"config", intent.config}};
  return dump_json(
             {{"schema", kSchema}, {"intent", about}, {"texts", texts}, {"links", links}, {"lists", lists}}) +
         "\n";
}

Snapshot parse_snapshot(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  if (fields.string_or("schema", "") != kSchema)
    throw Error(format("{}: not a snapshot of cheetah doctor --save", what));
  Snapshot snapshot;
  snapshot.source = std::make_shared<MemorySource>();
  if (const Json* texts = fields.find("texts"); texts != nullptr && texts->is_object())
    load_texts(*texts, what, *snapshot.source);
  if (const Json* links = fields.find("links"); links != nullptr && links->is_object())
    for (const auto& [path, target] : links->items())
      if (target.is_string()) snapshot.source->set_link(path, target.get<std::string>());
  if (const Json* lists = fields.find("lists"); lists != nullptr && lists->is_object())
    for (const auto& [path, names] : lists->items()) {
      std::vector<std::string> all;
      for (const Json& name : names)
        if (name.is_string()) all.push_back(name.get<std::string>());
      snapshot.source->set_list(path, std::move(all));
    }
  if (const Json* about = fields.find("intent")) {
    const JsonFields intent(*about, what);
    snapshot.intent.purpose = purpose_named(intent.string_or("purpose", "serve"));
    snapshot.intent.multi_node = intent.boolean_or("multi_node", false);
    snapshot.intent.pid = intent.string_or("pid", "");
    snapshot.intent.data_path = intent.string_or("data_path", "");
    snapshot.intent.checkpoint_path = intent.string_or("checkpoint_path", "");
    snapshot.intent.binary = intent.string_or("binary", "");
    snapshot.intent.config = intent.string_or("config", "");
  }
  return snapshot;
}

}  // namespace cheetah::doctor
