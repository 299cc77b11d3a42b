#pragma once
// Whether the pages of one worker can be used by another.
#include <string>

#include "cluster/types.h"

namespace cheetah::cluster {

enum class KvCompatibility : uint8_t { kEqual, kTransform, kRefuse };
struct KvMatch {
  KvCompatibility verdict = KvCompatibility::kRefuse;
  std::string why;  // one sentence when not equal
};
// Equal: bytes as they are. Transform: the same numbers in another shard, page size, element order or plain
// dtype (KvTransform). Refuse: another model or shape.
KvMatch match_kv(const KvDescriptor& from, const KvDescriptor& to);

}  // namespace cheetah::cluster
