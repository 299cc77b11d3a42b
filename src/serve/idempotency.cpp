// SPDX-License-Identifier: MIT
#include "serve/idempotency.h"

#include <functional>

namespace cheetah {

IdempotencyKeys::Verdict IdempotencyKeys::begin(const std::string& key, std::string_view request, Time now) {
  const uint64_t fingerprint = std::hash<std::string_view>()(request);
  return table_.with([&](Table& table) {
    forget_old(table, now);
    const auto [found, fresh] = table.entries.try_emplace(key);
    Entry& entry = found->second;
    if (!fresh)
      return entry.fingerprint != fingerprint ? Verdict::kOtherRequest
             : entry.runs                     ? Verdict::kRuns
                                              : Verdict::kAnswered;
    entry = {.fingerprint = fingerprint, .number = ++table.next};
    table.ages.push_back({key, entry.number, now});
    return Verdict::kNew;
  });
}

void IdempotencyKeys::end(const std::string& key, bool answered) {
  table_.with([&](Table& table) {
    const auto found = table.entries.find(key);
    if (found == table.entries.end()) return;
    if (answered)
      found->second.runs = false;
    else
      table.entries.erase(found);
  });
}

void IdempotencyKeys::forget_old(Table& table, Time now) {
  while (!table.ages.empty() &&
         (table.ages.size() >= kMaxKeys || now - table.ages.front().begun > kRemembered)) {
    const Age& oldest = table.ages.front();
    const auto found = table.entries.find(oldest.key);
    if (found != table.entries.end() && found->second.number == oldest.number) table.entries.erase(found);
    table.ages.pop_front();
  }
}

}  // namespace cheetah
