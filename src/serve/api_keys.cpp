// SPDX-License-Identifier: MIT
#include "serve/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

int64_t positive_number(std::string_view text, const std::string& where) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    throw UsageError(format("{}: '{}' is not a positive whole number", where, printable(text)));
  return value;
}

void read_limit(const std::string& word, KeyLimits& limits, const std::string& where) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  if (equals == std::string::npos || (name != "rpm" && name != "concurrent"))
    throw UsageError(
        format("{}: '{}' is not a limit: expected rpm=N or concurrent=N", where, printable(word)));
  const int64_t value = positive_number(std::string_view(word).substr(equals + 1), where);
  if (name == "rpm")
    limits.requests_per_minute = static_cast<double>(value);
  else
    limits.concurrent = value;
}

}  // namespace

std::optional<double> Tenant::over_rate(ServeTime now) {
  if (limits_.requests_per_minute <= 0) return std::nullopt;
  const double interval = 60e9 / limits_.requests_per_minute;
  const double burst =
      std::max(interval, 60e9);  // the bucket starts full: a whole minute's requests may come at once
  const int64_t at = now.time_since_epoch().count();
  int64_t seen = empty_at_ns_.load();
  for (;;) {
    const int64_t empty = std::max(seen, at);
    const double ahead = static_cast<double>(empty - at) + interval - burst;
    if (ahead > 0) return ahead / 1e9;
    if (empty_at_ns_.compare_exchange_weak(seen, empty + static_cast<int64_t>(interval))) return std::nullopt;
  }
}

bool Tenant::try_acquire() {
  const int64_t running = ++running_;
  if (limits_.concurrent == 0 || running <= limits_.concurrent) return true;
  --running_;
  return false;
}

ApiKeys::ApiKeys() : everyone_(std::make_shared<Tenant>("", "", KeyLimits{})) {}

ApiKeys ApiKeys::parse(std::string_view text, const std::string& what, const KeyLimits& defaults) {
  ApiKeys keys;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    keys.add_line(line, format("{}:{}", what, number), defaults);
  }
  if (!keys.required()) throw UsageError(format("{}: holds no key: write one a line", what));
  return keys;
}

void ApiKeys::add_line(std::string_view line, const std::string& where, const KeyLimits& defaults) {
  std::istringstream words{std::string(line)};
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  const bool named = all.size() > 1;
  KeyLimits limits = defaults;
  for (size_t i = 2; i < all.size(); ++i) read_limit(all[i], limits, where);
  const std::string& key = named ? all[1] : all[0];
  if (key.size() < 8) throw UsageError(format("{}: a key must have at least 8 characters", where));
  add(named ? all[0] : format("key-{}", entries_.size() + 1), key, limits);
}

void ApiKeys::add(std::string name, std::string_view key, const KeyLimits& limits) {
  // The salt keeps the tenants' cached prefixes apart; the name is not secret, so neither need the salt be.
  std::string salt = "tenant " + name;
  entries_.push_back({digest_of(key), std::make_shared<Tenant>(std::move(name), std::move(salt), limits)});
}

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

bool ApiKeys::shares_a_key_with(const ApiKeys& other) const {
  const auto has = [&](const Entry& mine) {
    return std::ranges::find(other.entries_, mine.digest, &Entry::digest) != other.entries_.end();
  };
  return std::ranges::any_of(entries_, has);
}

// Looks at every entry, whichever matches, so that time tells nothing.
std::shared_ptr<Tenant> ApiKeys::find(std::string_view key) const {
  if (!required()) return everyone_;
  const Digest given = digest_of(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_)
    if (CRYPTO_memcmp(entry.digest.data(), given.data(), given.size()) == 0) found = &entry;
  return found ? found->tenant : nullptr;
}

}  // namespace cheetah
