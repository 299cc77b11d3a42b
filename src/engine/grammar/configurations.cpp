// SPDX-License-Identifier: MIT
#include "engine/grammar/configurations.h"

#include <algorithm>

namespace cheetah {
namespace {

// Frames that are there from the start. Each has one link to a state that stands for what lies beyond.
constexpr int32_t kOutermostFrame = 0;  // of the root: leaving it completes the text
constexpr int32_t kUnknownFrame = 1;    // where cut() stopped
constexpr int32_t kCompleteState = -1;
constexpr int32_t kUnknownState = -2;
constexpr int kCutDepth = 2;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9E3779B97F4A7C15u;  // the golden ratio: spreads neighbouring ids over the table
  return hash ^ hash >> 29;
}

template <class Span>
uint64_t hash_pairs(const Span& pairs, uint64_t seed) {
  uint64_t hash = mix(seed + 1, pairs.size());
  for (const auto& pair : pairs)
    hash = mix(hash,
        static_cast<uint64_t>(static_cast<uint32_t>(pair.state)) << 32 | static_cast<uint32_t>(pair.frame));
  return hash;
}

}  // namespace

void InternTable::grow() {
  std::vector<Slot> old(std::max<size_t>(64, slots_.size() * 2));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

bool KeySet::insert(uint64_t key) {
  if ((used_.size() + 1) * 2 > slots_.size()) grow();
  size_t at = mix(0, key) & (slots_.size() - 1);
  for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at] == key + 1) return false;
  slots_[at] = key + 1;
  used_.push_back(at);
  return true;
}

void KeySet::clear() {
  for (const size_t at : used_) slots_[at] = 0;
  used_.clear();
}

void KeySet::grow() {
  std::vector<uint64_t> old(std::max<size_t>(64, slots_.size() * 2));
  old.swap(slots_);
  used_.clear();
  for (const uint64_t key : old)
    if (key != 0) insert(key - 1);
}

Configurations::Configurations(const Automaton& automaton)
    : automaton_(automaton),
      num_classes_(static_cast<size_t>(automaton.num_classes())),
      called_(automaton.rules.size()) {
  std::vector<Link> beyond = {{kCompleteState, -1}};
  intern_frame(beyond);
  beyond = {{kUnknownState, -1}};
  intern_frame(beyond);
  call(automaton.root, {kCompleteState, -1});
  start_ = close(automaton.matches_empty);  // which no jump over a call shows
}

int64_t Configurations::bytes() const {
  return static_cast<int64_t>(links_.size() * sizeof(Link) + frames_.size() * sizeof(Frame) +
                              items_.size() * sizeof(Item) + records_.size() * sizeof(Record) +
                              moves_.size() * sizeof(ConfigId) + frame_table_.bytes() +
                              config_table_.bytes());
}

int32_t Configurations::intern_frame(std::vector<Link>& frame_links) {
  std::sort(frame_links.begin(), frame_links.end());
  frame_links.erase(std::unique(frame_links.begin(), frame_links.end()), frame_links.end());
  work_ += static_cast<int64_t>(frame_links.size());
  const auto fresh = static_cast<int32_t>(frames_.size());
  const int32_t id = frame_table_.find_or_enter(hash_pairs(frame_links, 0), fresh,
      [&](int32_t other) { return std::ranges::equal(links(other), frame_links); });
  if (id == fresh) {
    frames_.push_back({static_cast<int32_t>(links_.size()), static_cast<int32_t>(frame_links.size())});
    links_.insert(links_.end(), frame_links.begin(), frame_links.end());
  }
  return id;
}

ConfigId Configurations::intern_config(bool complete, bool left_known) {
  std::sort(found_.begin(), found_.end());
  const uint64_t hash = hash_pairs(found_, 2 + (complete ? 1 : 0) + (left_known ? 2 : 0));
  const auto fresh = static_cast<int32_t>(records_.size());
  const int32_t id = config_table_.find_or_enter(hash, fresh, [&](int32_t other) {
    const Record& r = records_[static_cast<size_t>(other)];
    return r.complete == complete && r.left_known == left_known &&
           std::ranges::equal(items(ConfigId{other}), found_);
  });
  if (id == fresh) {
    TextRun longest;
    for (const Item& item : found_) {
      const TextRun& run = automaton_.runs[static_cast<size_t>(item.state)];
      if (run.length > longest.length) longest = run;
    }
    records_.push_back({static_cast<int64_t>(items_.size()), static_cast<int32_t>(found_.size()), complete,
        left_known, longest});
    items_.insert(items_.end(), found_.begin(), found_.end());
    moves_.resize(moves_.size() + num_classes_, ConfigId::kNotComputed);
  }
  return ConfigId{id};
}

ConfigId Configurations::compute_move(ConfigId from, size_t slot) {
  const uint8_t byte = automaton_.class_representative[slot % num_classes_];
  for (const Item& item : items(from))
    for (const ByteEdge& edge : automaton_.bytes[item.state]) {
      ++work_;
      if (edge.low <= byte && byte <= edge.high) reach(edge.target, item.frame);
    }
  const ConfigId to = close(false);
  moves_[slot] = to;
  return to;
}

void Configurations::reach(int32_t state, int32_t frame) {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32 | static_cast<uint32_t>(frame);
  ++work_;
  if (seen_.insert(key)) waiting_.push_back({state, frame});
}

void Configurations::call(int32_t rule, Link link) {
  std::vector<Link>& list = called_[static_cast<size_t>(rule)];
  if (list.empty()) {
    calls_.emplace_back(-automaton_.rules[static_cast<size_t>(rule)].rank, rule);
    std::push_heap(calls_.begin(), calls_.end());
  }
  ++work_;
  list.push_back(link);
}

void Configurations::leave(int32_t frame) {
  for (const Link& link : links(frame)) {
    if (link.state == kCompleteState)
      complete_ = true;
    else if (link.state == kUnknownState)
      left_known_ = true;
    else
      reach(link.state, link.frame);
  }
}

void Configurations::follow(const Item& item, bool may_leave) {
  for (const int32_t next : automaton_.jumps[item.state]) reach(next, item.frame);
  for (const Call& made : automaton_.calls[item.state]) {
    if (made.tail)
      for (const Link& link : links(item.frame)) call(made.rule, link);
    else
      call(made.rule, {made.back_to, item.frame});
  }
  if (automaton_.is_final[static_cast<size_t>(item.state)] && may_leave) leave(item.frame);
  if (!automaton_.bytes[item.state].empty()) found_.push_back(item);
}

void Configurations::drain(bool may_leave, int64_t work_limit) {
  while (!waiting_.empty()) {
    const Item item = waiting_.back();
    waiting_.pop_back();
    if (work_ <= work_limit) follow(item, may_leave);
  }
}

// Everything that can be reached from what waits without reading a byte. Old frames come first: there rules
// can end. Then the calls, callers before callees by rank, so that a frame's links are all known when it is
// made; none of these rules has read a byte, and their empty sentences are jumps over the call.
ConfigId Configurations::close(bool complete) {
  complete_ = complete;
  left_known_ = false;
  found_.clear();
  const int64_t work_limit = work_ + kMaxMoveWork;
  drain(true, work_limit);
  while (!calls_.empty()) {
    std::pop_heap(calls_.begin(), calls_.end());
    const int32_t rule = calls_.back().second;
    calls_.pop_back();
    std::vector<Link>& list = called_[static_cast<size_t>(rule)];
    const int32_t frame = intern_frame(list);
    list.clear();
    reach(automaton_.rules[static_cast<size_t>(rule)].start, frame);
    drain(false, work_limit);
  }
  seen_.clear();
  if (work_ > work_limit || (found_.empty() && !complete_ && !left_known_)) return ConfigId::kDead;
  return intern_config(complete_, left_known_);
}

int Configurations::only_byte(ConfigId id) const {
  int only = -1;
  for (const Item& item : items(id))
    for (const ByteEdge& edge : automaton_.bytes[item.state]) {
      if (edge.low != edge.high || (only >= 0 && only != edge.low)) return -1;
      only = edge.low;
    }
  return only;
}

int32_t Configurations::cut_frame(int32_t frame, int depth) {
  std::vector<Link> shorter(links(frame).begin(), links(frame).end());
  for (Link& link : shorter)
    if (link.state >= 0) link.frame = depth <= 1 ? kUnknownFrame : cut_frame(link.frame, depth - 1);
  return intern_frame(shorter);
}

ConfigId Configurations::cut(ConfigId id) {
  if (record(id).cut != ConfigId::kNotComputed) return record(id).cut;
  const std::vector<Item> whole(items(id).begin(), items(id).end());
  found_.clear();
  seen_.clear();
  int32_t last_frame = -1, last_cut = -1;  // neighbours mostly share a frame
  for (Item item : whole) {
    if (item.frame != last_frame) last_cut = cut_frame(last_frame = item.frame, kCutDepth);
    item.frame = last_cut;
    if (seen_.insert(static_cast<uint64_t>(static_cast<uint32_t>(item.state)) << 32 |
                     static_cast<uint32_t>(item.frame)))
      found_.push_back(item);
  }
  seen_.clear();
  const ConfigId result = intern_config(record(id).complete, record(id).left_known);
  records_[static_cast<size_t>(id)].cut = result;
  return result;
}

int32_t Configurations::import_frame(
    const Configurations& other, int32_t frame, std::vector<int32_t>& known) {
  if (known[static_cast<size_t>(frame)] >= 0) return known[static_cast<size_t>(frame)];
  // A frame's links lead to frames made before it: walking ids upwards needs no recursion.
  std::vector<uint8_t> wanted(static_cast<size_t>(frame) + 1, 0);
  wanted[static_cast<size_t>(frame)] = 1;
  for (int32_t at = frame; at >= 0; --at) {
    if (!wanted[static_cast<size_t>(at)] || known[static_cast<size_t>(at)] >= 0) continue;
    for (const Link& link : other.links(at))
      if (link.frame >= 0) wanted[static_cast<size_t>(link.frame)] = 1;
  }
  for (int32_t at = 0; at <= frame; ++at) {
    if (!wanted[static_cast<size_t>(at)] || known[static_cast<size_t>(at)] >= 0) continue;
    std::vector<Link> copy(other.links(at).begin(), other.links(at).end());
    for (Link& link : copy)
      if (link.frame >= 0) link.frame = known[static_cast<size_t>(link.frame)];
    known[static_cast<size_t>(at)] = intern_frame(copy);
  }
  return known[static_cast<size_t>(frame)];
}

ConfigId Configurations::import(const Configurations& other, ConfigId id) {
  if (id == ConfigId::kDead) return id;
  std::vector<int32_t> known(other.frames_.size(), -1);
  std::vector<Item> imported;
  for (Item item : other.items(id)) {
    item.frame = import_frame(other, item.frame, known);
    imported.push_back(item);
  }
  found_ = std::move(imported);
  return intern_config(other.complete(id), other.left_known(id));
}

}  // namespace cheetah
