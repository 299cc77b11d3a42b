// SPDX-License-Identifier: MIT
#pragma once
// From the pages of one worker to a slab for another, and from a slab to one's own pages. A slab has the
// receiver's page size and order, and the narrower of both dtypes: numbers are made wider where they arrive.
// A descriptor's page_bytes here are those of all groups of layers.
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "cluster/transfer/kv_compat.h"
#include "cluster/transfer/slab.h"

namespace cheetah::cluster {

// How pages of `mine` travel to a worker that wants `wanted`: as its shard where ours has all of it, else as
// ours, and the receiver gathers several.
KvDescriptor travelling(const KvDescriptor& mine, const KvDescriptor& wanted);

class SlabWriter {
 public:
  SlabWriter(const KvDescriptor& mine,
      const KvDescriptor& wanted);  // throws Error with match_kv()'s sentence

  bool as_they_are() const { return !transform_; }  // pages go into body() as they are, without write()
  struct Label {
    RequestKey key;
    uint32_t index = 0;
    int64_t first_token = 0, num_tokens = 0;
  };
  // Our own whole pages that hold these tokens.
  struct Source {
    int64_t first_token = 0, end_token = 0, bytes = 0;
  };
  Source source_of(const Label& label) const;
  int64_t slab_bytes(int64_t num_tokens) const;
  void write_header(const Label& label, std::span<std::byte> slab) const;
  static std::span<std::byte> body(std::span<std::byte> slab) { return slab.subspan(sizeof(SlabHeader)); }
  void write(const Label& label, std::span<const std::byte> source, std::span<std::byte> slab) const;

 private:
  KvDescriptor mine_, wire_;
  std::optional<KvTransform> transform_;  // none: they travel as they are
};

class SlabReader {
 public:
  explicit SlabReader(KvDescriptor mine) : mine_(std::move(mine)) {}

  // Throws Error where the slab's pages cannot become ours.
  bool as_they_are(const SlabHeader& header) const;
  int64_t page_bytes(const SlabView& slab) const;  // of our own pages that it becomes
  // The heads it has, into our own pages; others are left as they are.
  void read(const SlabView& slab, std::span<std::byte> pages) const;

 private:
  KvDescriptor wire_of(const SlabHeader& header) const;

  KvDescriptor mine_;
};

}  // namespace cheetah::cluster
