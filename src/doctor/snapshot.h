// SPDX-License-Identifier: MIT
#pragma once
// All that was read from a machine, as one JSON file: to examine it elsewhere, again, or beside others.
#include <memory>
#include <string>

#include "doctor/facts.h"

namespace cheetah::doctor {

std::string snapshot_json(const MemorySource& seen, const Intent& intent);

struct Snapshot {
  std::shared_ptr<MemorySource> source;
  Intent intent;
};
// Throws Error on what is no snapshot.
Snapshot parse_snapshot(std::string_view text, const std::string& what);

std::string_view name_of(Purpose purpose);
Purpose purpose_named(std::string_view name);  // throws Error

}  // namespace cheetah::doctor
