// SPDX-License-Identifier: MIT
#include "model/template/runtime.h"

#include "base/error.h"
#include "base/format.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

// Bytes a rendering may make and read in all, per byte of output it may write: room for templates that build
// their text by appending to a variable, yet a copying loop ends within a tenth of a second.
constexpr int64_t kWorkPerOutputByte = 16;

}  // namespace

Runtime::Runtime(const TemplateLimits& limits, int64_t now)
    : max_text_bytes_(limits.max_output_bytes),
      now_(now),
      budget_(limits.max_steps, limits.max_output_bytes * kWorkPerOutputByte) {}

Runtime::~Runtime() {
  for (const auto& object : kept_objects_) object->release();
}

Value Runtime::call(const Value& callee, Args& args) {
  if (callee.is_undefined()) fail(callee.undefined_message());
  if (!callee.is_object() || !callee.object_of().callable())
    fail(format("'{}' object is not callable", type_name(callee)));
  const std::shared_ptr<Object> alive = callee.object_ptr();
  return alive->call(*this, args);
}

Value Runtime::call_filter(const std::string& name, const Value& value, Args& args) {
  const NativeFunction filter = find_filter(name);
  if (!filter) fail(format("unknown filter: No filter named '{}' found.", printable(name)));
  budget_.step();
  return filter(*this, value, args);
}

bool Runtime::call_test(const std::string& name, const Value& value, Args& args) {
  const TestFunction test = find_test(name);
  if (!test) fail(format("unknown test: No test named '{}' found.", printable(name)));
  budget_.step();
  return test(*this, value, args);
}

std::string Runtime::str(const Value& value) {
  if (value.is_generator() || value.is_object()) return to_str(value);
  budget_.bytes(value.weight());
  return to_str(value);
}

Value Runtime::string(std::string bytes, bool safe) {
  if (static_cast<int64_t>(bytes.size()) > max_text_bytes())
    fail(format("memory limit exceeded: a text of more than {} bytes", max_text_bytes()));
  budget_.bytes(static_cast<int64_t>(bytes.size()) + 32);
  return Value::string(std::move(bytes), safe);
}

Value Runtime::list(std::vector<Value> items) {
  budget_.items(static_cast<int64_t>(items.size()));
  return Value::list(std::move(items));
}

}  // namespace cheetah::jinja
