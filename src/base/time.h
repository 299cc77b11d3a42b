// SPDX-License-Identifier: MIT
#pragma once
// Time as numbers, and the clock as an argument.
#include <chrono>
#include <cstdint>

namespace cheetah {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

template <class Rep, class Period>
constexpr double seconds(std::chrono::duration<Rep, Period> duration) {
  return std::chrono::duration<double>(duration).count();
}
constexpr double seconds(SteadyTime from, SteadyTime to) { return seconds(to - from); }
inline double seconds_since(SteadyTime from) { return seconds(SteadyClock::now() - from); }

template <class Rep, class Period>
constexpr double milliseconds(std::chrono::duration<Rep, Period> duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}
constexpr double milliseconds(SteadyTime from, SteadyTime to) { return milliseconds(to - from); }

// The steady clock's own duration for a number of seconds.
constexpr SteadyClock::duration from_seconds(double count) {
  return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(count));
}

// Whole seconds since 1970.
inline int64_t unix_seconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

// A component's source of time. Production reads the steady clock; a test or a replay sets the time.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual SteadyTime now() const { return SteadyClock::now(); }
};

class ManualTime final : public TimeSource {
 public:
  explicit ManualTime(SteadyTime start = {}) : now_(start) {}
  SteadyTime now() const override { return now_; }
  void set(SteadyTime now) { now_ = now; }
  void advance(SteadyClock::duration by) { now_ += by; }

 private:
  SteadyTime now_;
};

}  // namespace cheetah
