// SPDX-License-Identifier: MIT
#pragma once
// Chat templates: the Jinja that models ship, run in a sandbox with limits on steps, output and recursion.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah {

struct TemplateLimits {
  int64_t max_source_bytes = int64_t{1} << 20;
  int64_t max_steps = 1'000'000;
  int64_t max_output_bytes = int64_t{16} << 20;
  int max_recursion = 64;
};

namespace jinja {
struct Program;
}

// A parsed template. Immutable; rendering it is a pure function of the variables and `now`.
class ChatTemplate {
 public:
  // Throws Error "NAME: line N: …" on a syntax error, an unknown filter or test, or a forbidden statement.
  ChatTemplate(std::string_view source, std::string name, TemplateLimits limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // variables_json: one JSON object (messages, tools, add_generation_prompt, bos_token …), whose key order is
  // kept. now: seconds since 1970 UTC as strftime_now shows it. Throws Error for raise_exception and every
  // failure.
  std::string render(std::string_view variables_json, int64_t now) const;
  // As the model ships it: tells which marks its answers use for tool calls and reasoning.
  std::string_view source() const { return source_; }

 private:
  std::string source_;
  std::unique_ptr<const jinja::Program> program_;
};

}  // namespace cheetah
