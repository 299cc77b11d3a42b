// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/grammar/automaton.h"

namespace cheetah {

enum class ConfigId : int32_t { kDead = -1, kNotComputed = -2 };

// A hash table of ids whose keys live elsewhere, so that equal things get one id.
class InternTable {
 public:
  // The id of the equal thing, or `fresh` after it was entered.
  template <class Equal>
  int32_t find_or_enter(uint64_t hash, int32_t fresh, const Equal& equal) {
    if ((entries_ + 1) * 2 > slots_.size()) grow();
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash && equal(slots_[at].id)) return slots_[at].id;
    slots_[at] = {hash, fresh};
    ++entries_;
    return fresh;
  }
  size_t bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t hash;
    int32_t id = -1;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t entries_ = 0;
};

// A set of 64-bit keys that is emptied often.
class KeySet {
 public:
  bool insert(uint64_t key);  // false: it was there
  void clear();

 private:
  void grow();
  std::vector<uint64_t> slots_;  // key + 1; 0 is free
  std::vector<size_t> used_;
};

// The configurations of one automaton that have come up so far, and the moves between them: the automaton
// made deterministic as far as it is used. One thread.
//
// A configuration is the set of (state, frame) pairs the text so far can have led to. A frame says where to
// go when its rule ends: a set of (state, frame) links. All calls of a rule at one place in the text share a
// frame, so ambiguity makes frames wider, not more numerous. Equal frames and equal configurations have one
// id.
class Configurations {
 public:
  explicit Configurations(const Automaton& automaton);

  ConfigId start() const { return start_; }
  ConfigId after(ConfigId from, uint8_t byte) {
    const size_t slot = static_cast<size_t>(from) * num_classes_ + automaton_.byte_class[byte];
    const ConfigId known = moves_[slot];
    return known == ConfigId::kNotComputed ? compute_move(from, slot) : known;
  }

  bool complete(ConfigId id) const { return record(id).complete; }
  // The text may have ended the frame under which `cut` put an unknown.
  bool left_known(ConfigId id) const { return record(id).left_known; }
  // Any text of that class and at most that length may follow.
  TextRun run(ConfigId id) const { return record(id).run; }
  // The only byte that can follow, or -1.
  int only_byte(ConfigId id) const;

  // The same configuration with what is deeper than two frames forgotten: what is decided for it holds in
  // every context, which is what makes masks worth keeping.
  ConfigId cut(ConfigId id);
  // The equal configuration of another table for the same automaton.
  ConfigId import(const Configurations& other, ConfigId id);

  int64_t count() const { return static_cast<int64_t>(records_.size()); }
  int64_t bytes() const;
  int64_t work() const { return work_; }  // elementary steps so far
  // A move that takes more steps than this is refused: the grammar is too ambiguous to go on.
  static constexpr int64_t kMaxMoveWork = 5'000'000;

 private:
  struct Link {
    int32_t state, frame;
    auto operator<=>(const Link&) const = default;
  };
  using Item = Link;  // a state and the frame of its rule
  struct Frame {
    int32_t begin, count;
  };
  struct Record {
    int64_t begin;
    int32_t count;
    bool complete, left_known;
    TextRun run;
    ConfigId cut = ConfigId::kNotComputed;
  };

  const Record& record(ConfigId id) const { return records_[static_cast<size_t>(id)]; }
  std::span<const Item> items(ConfigId id) const {
    return {items_.data() + record(id).begin, static_cast<size_t>(record(id).count)};
  }
  std::span<const Link> links(int32_t frame) const {
    const Frame& f = frames_[static_cast<size_t>(frame)];
    return {links_.data() + f.begin, static_cast<size_t>(f.count)};
  }

  ConfigId compute_move(ConfigId from, size_t slot);
  int32_t intern_frame(std::vector<Link>& frame_links);
  ConfigId intern_config(bool complete, bool left_known);
  int32_t cut_frame(int32_t frame, int depth);
  int32_t import_frame(const Configurations& other, int32_t frame, std::vector<int32_t>& known);

  void reach(int32_t state, int32_t frame);
  void call(int32_t rule, Link link);
  void leave(int32_t frame);
  void follow(const Item& item, bool may_leave);
  void drain(bool may_leave, int64_t work_limit);
  ConfigId close(bool complete);

  const Automaton& automaton_;
  size_t num_classes_;
  std::vector<Frame> frames_;
  std::vector<Link> links_;
  std::vector<Record> records_;
  std::vector<Item> items_;
  std::vector<ConfigId> moves_;  // [config, byte class]
  InternTable frame_table_, config_table_;
  ConfigId start_;
  int64_t work_ = 0;

  // Scratch of one closure.
  KeySet seen_;
  std::vector<Item> waiting_, found_;
  std::vector<std::vector<Link>> called_;           // by rule
  std::vector<std::pair<int32_t, int32_t>> calls_;  // (rank, rule) with links waiting: a heap
  bool complete_ = false, left_known_ = false;
};

}  // namespace cheetah
