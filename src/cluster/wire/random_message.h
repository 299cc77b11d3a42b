// SPDX-License-Identifier: MIT
#pragma once
// Messages for tests: the same list of fields that the wire uses, filled by chance.
#include <utility>

#include "base/random.h"
#include "cluster/wire/message_fields.h"

namespace cheetah::cluster {

// An archive that reads nothing and makes everything up.
class Chance {
 public:
  static constexpr bool kReads = true;
  explicit Chance(uint64_t seed) : draw_(seed) {}
  uint16_t version() const { return kWire.newest; }

  template <class T>
  requires std::integral<T> || std::is_enum_v<T>
  void number(T& value) { value = static_cast<T>(bits()); }
  void number(bool& value) { value = draw_.next_u32() % 2 == 0; }
  void number(float& value) { value = static_cast<float>(draw_.next_uniform() * 200 - 100); }
  void number(double& value) { value = draw_.next_uniform() * 1e6 - 5e5; }
  void finite(float& value) { number(value); }
  void finite(double& value) { number(value); }
  void text(std::string& value) {
    value.resize(draw_.next_u32() % 20);
    for (char& byte : value) byte = static_cast<char>(draw_.next_u32());
  }
  void span(std::chrono::microseconds& value) { value = std::chrono::microseconds(draw_.next_u32()); }
  template <class T>
  void choice(T& value, T last) {
    value = static_cast<T>(draw_.next_u32() % (static_cast<uint32_t>(last) + 1));
  }
  template <class T>
  void between(T& value, T least, T most) {
    const auto width = static_cast<uint64_t>(most) - static_cast<uint64_t>(least) + 1;
    value = most < least ? least : static_cast<T>(static_cast<uint64_t>(least) + bits() % width);
  }
  template <class T, class Item>
  void list(std::vector<T>& values, size_t, size_t, Item&& item) {
    values.resize(draw_.next_u32() % 6);
    for (T& value : values) item(value);
  }
  void expect(bool, const char*) {}

 private:
  uint64_t bits() { return (uint64_t{draw_.next_u32()} << 32) | draw_.next_u32(); }
  Philox draw_;
};

template <size_t... kIndex>
Message random_message(size_t type, uint64_t seed, std::index_sequence<kIndex...>) {
  Chance chance(seed);
  Message message;
  const auto make_if = [&]<size_t kThis>() {
    if (type == kThis) fields(chance, message.emplace<kThis>());
  };
  (make_if.template operator()<kIndex>(), ...);
  auto* job = std::get_if<PrefillJob>(&message);
  if (auto* fetch = std::get_if<FetchJob>(&message)) job = &fetch->job;
  if (job != nullptr) {  // a range, not two numbers
    job->end_token = static_cast<int64_t>(job->tokens.size());
    job->first_token = 0;
  }
  return message;
}
inline Message random_message(size_t type, uint64_t seed) {
  return random_message(type, seed, std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace cheetah::cluster
