// SPDX-License-Identifier: MIT
#include "cluster/registry/peer_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cluster/registry/keys.h"

namespace cheetah::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr std::string_view kRoles[] = {"router", "prefill", "decode", "both"};

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) throw Error(format("{}: cannot be read", path));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes)
    throw Error(format("{}: over {} bytes: expected a short list", path, kMostBytes));
  return text;
}

bool is_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > 300) return false;
  const auto port = to_integer(text.substr(colon + 1));
  return port && *port >= 1 && *port <= 65535;
}

void read_line(const std::string& path, int64_t number, std::string_view line, Registry::Entries& entries) {
  const auto words = words_of(line.substr(0, line.find('#')));
  if (words.empty()) return;
  const auto refuse = [&](std::string_view expected) {
    throw Error(format("{}: line {}: \"{}\": expected {}", path, number, printable(line), expected));
  };
  RegistryEntry entry{.key = {}, .value = {}, .revision = 1};
  if (words[0] == "config") {
    if (words.size() != 3) refuse("config NAME FILE");
    entry.key = format("{}{}", kConfigPrefix, words[1]);
    entry.value = contents_of((std::filesystem::path(path).parent_path() / words[2]).string());
  } else {
    if (std::ranges::find(kRoles, words[0]) == std::end(kRoles))
      refuse("router, prefill, decode, both or config");
    if (words.size() < 2 || words.size() > 3 || !is_address(words[1])) refuse("ROLE HOST:PORT [NAME]");
    entry.key = format("{}{}", kPeersPrefix, words[1]);
    entry.value = format("{} {}", words[0], words.size() == 3 ? words[2] : words[1]);
  }
  if (entry.key.size() > 512) refuse("a shorter name");
  if (!entries.emplace(entry.key, entry).second) refuse("each peer and document once");
}

}  // namespace

Registry::Entries read_peer_file(const std::string& path) {
  const std::string text = contents_of(path);
  Registry::Entries entries;
  int64_t number = 0;
  for (const std::string_view line : lines_of(text)) read_line(path, ++number, line, entries);
  return entries;
}

PeerFileRegistry::PeerFileRegistry(std::string path, std::chrono::milliseconds interval)
    : path_(std::move(path)), interval_(interval), view_(Duration::zero()) {
  known_.with([&](Known& known) {
    for (const auto& [key, entry] : read_peer_file(path_)) known.file[key] = entry.value;
    merge(known);
  });
  service_.with([](ServiceState& state) { state = {true, Clock::now(), {}}; });
  view_.notice({RegistryNotice::Kind::kUp, {}});
  thread_ = std::jthread([this] { loop(); });
}

PeerFileRegistry::~PeerFileRegistry() {
  wakes_.close();
  thread_.join();
}

// The lock is held while the view is told, which only posts.
void PeerFileRegistry::merge(Known& known) {
  std::map<std::string, std::string> wanted = known.file;
  for (const auto& [key, value] : known.announced) wanted[key] = value;
  ++known.revision;
  std::erase_if(known.entries, [&](const auto& item) { return !wanted.contains(item.first); });
  for (const auto& [key, value] : wanted) {
    RegistryEntry& entry = known.entries[key];
    if (entry.revision == 0 || entry.value != value) entry = {key, value, known.revision};
  }
  view_.replace_all(known.entries);
}

void PeerFileRegistry::announce(std::string key, std::string value) {
  check_entry(key, value);
  known_.with([&](Known& known) {
    known.announced[std::move(key)] = std::move(value);
    merge(known);
  });
}

void PeerFileRegistry::withdraw(std::string key) {
  known_.with([&](Known& known) {
    known.announced.erase(key);
    merge(known);
  });
}

void PeerFileRegistry::transact(Transaction transaction, TransactionCallback done) {
  check_transaction(transaction);
  TransactionResult result;
  result.why = format("{} is a list of peers: there is no shared registry to write to", path_);
  view_.run([result, done = std::move(done)] { done(result); });
}

Registry::WatchId PeerFileRegistry::watch(std::string prefix, WatchCallback callback) {
  return view_.watch(std::move(prefix), std::move(callback));
}

void PeerFileRegistry::loop() {
  while (!wakes_.closed()) {
    wakes_.wait_until(Clock::now() + interval_);
    read_again();
  }
}

// By its contents, not its date: it is small, and a change within one second is a change.
void PeerFileRegistry::read_again() {
  std::string why;
  try {
    std::map<std::string, std::string> file;
    for (const auto& [key, entry] : read_peer_file(path_)) file[key] = entry.value;
    known_.with([&](Known& known) {
      if (known.file == file) return;
      known.file = std::move(file);
      merge(known);
    });
  } catch (const Error& error) {
    why = error.what();
  }
  service_.with([&](ServiceState& state) {
    if (state.up == why.empty()) return;
    state = {why.empty(), Clock::now(), why};
    view_.notice({state.up ? RegistryNotice::Kind::kUp : RegistryNotice::Kind::kDown, why});
  });
}

}  // namespace cheetah::cluster
