// SPDX-License-Identifier: MIT
#include "lab/analysis/sass.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/text.h"

namespace cheetah::analysis {
namespace {

constexpr size_t kMaxKernels = 100000;
constexpr size_t kMaxName = 4096;

// Puts together what different lines say of one kernel.
class CodeReader {
 public:
  void line(std::string_view text) {
    if (text.empty()) return;
    if (begins_kernel(text)) return;
    if (const auto opcode = opcode_of(text)) return count(*opcode);
    read_resources(text);
  }
  std::vector<KernelCode> take() { return std::move(kernels_); }

 private:
  void select(std::string_view name) {
    std::string clean = printable(trimmed(name).substr(0, kMaxName), kMaxName);
    const auto key = std::pair(arch_, clean);
    auto found = index_.find(key);
    if (found == index_.end()) {
      current_ = nullptr;
      if (kernels_.size() >= kMaxKernels) return;
      found = index_.emplace(key, kernels_.size()).first;
      KernelCode kernel;
      kernel.name = std::move(clean);
      kernel.arch = arch_;
      kernels_.push_back(std::move(kernel));
    }
    current_ = &kernels_[found->second];
  }

  // The text between two quotes after `before`.
  static std::optional<std::string_view> quoted_after(std::string_view text, std::string_view before) {
    const size_t at = text.find(before);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(at + before.size());
    const size_t open = rest.find('\'');
    const size_t close = open == std::string_view::npos ? open : rest.find('\'', open + 1);
    if (close == std::string_view::npos) return std::nullopt;
    return rest.substr(open + 1, close - open - 1);
  }

  // The kernel that a line of a listing or of the assembler's report names.
  static std::optional<std::string_view> kernel_named(std::string_view start) {
    if (start.starts_with("Function : ")) return start.substr(11);
    if (start.starts_with("Function ") && start.ends_with(":")) return start.substr(9, start.size() - 10);
    if (start.starts_with(".section\t.text.") || start.starts_with(".section .text."))
      return start.substr(15, start.find_first_of(", \t\"", 15) - 15);
    if (!start.starts_with("ptxas info")) return std::nullopt;
    if (const auto name = quoted_after(start, "Compiling entry function ")) return name;
    const size_t properties = start.find("Function properties for ");
    if (properties != std::string_view::npos) return start.substr(properties + 24);
    return std::nullopt;
  }

  static std::optional<std::string_view> arch_named(std::string_view start) {
    if (start.starts_with("arch = ")) return trimmed(start.substr(7));
    if (start.starts_with("code for ")) return trimmed(start.substr(9));
    return std::nullopt;
  }

  bool begins_kernel(std::string_view text) {
    const std::string_view start = trimmed(text);
    if (const auto arch = arch_named(start)) {
      arch_ = printable(*arch, 32);
      return true;
    }
    if (start.starts_with("ptxas info"))
      if (const auto arch = quoted_after(start, "' for ")) arch_ = printable(*arch, 32);
    const auto name = kernel_named(start);
    if (name) select(*name);
    return name.has_value();
  }

  // "/*0010*/  @!P0 LDG.E.128 R4, [R2] ;" -> "LDG.E.128"
  static std::optional<std::string_view> opcode_of(std::string_view text) {
    std::string_view start = trimmed(text);
    if (!start.starts_with("/*")) return std::nullopt;
    const size_t end = start.find("*/");
    if (end == std::string_view::npos || end < 3 || end > 20) return std::nullopt;
    for (const char c : start.substr(2, end - 2))
      if (!std::isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    start = trimmed(start.substr(end + 2));
    if (start.starts_with("{")) start = trimmed(start.substr(1));
    if (start.starts_with("@")) {  // its predicate
      const size_t space = start.find(' ');
      if (space == std::string_view::npos) return std::nullopt;
      start = trimmed(start.substr(space));
    }
    const std::string_view opcode = start.substr(0, start.find_first_of(" ;\t"));
    if (opcode.empty() || opcode[0] < 'A' || opcode[0] > 'Z') return std::nullopt;
    return opcode;
  }

  void count(std::string_view opcode) {
    if (current_ == nullptr) return;
    ++current_->instructions;
    for (const std::string_view kind : kinds_of(opcode)) ++current_->counts[std::string(kind)];
  }

  void read_resources(std::string_view text) {
    if (current_ == nullptr) return;
    if (text.find("REG:") != std::string_view::npos) return read_usage_line(text);
    const auto words = words_of(text);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      const auto number = to_integer(words[i]);
      if (!number || *number < 0) continue;
      const std::string_view unit = words[i + 1].substr(0, words[i + 1].find(','));
      const std::string_view after =
          i + 2 < words.size() ? words[i + 2].substr(0, words[i + 2].find(',')) : "";
      const std::string_view last =
          i + 3 < words.size() ? words[i + 3].substr(0, words[i + 3].find(',')) : "";
      if (unit == "registers") current_->registers = number;
      if (unit == "barriers") current_->barriers = number;
      if (unit != "bytes") continue;
      if (after == "smem") current_->shared_bytes = number;
      if (after == "stack") current_->stack_bytes = number;
      if (after == "lmem") current_->local_bytes = number;
      if (after == "spill" && last == "stores") current_->spill_store_bytes = number;
      if (after == "spill" && last == "loads") current_->spill_load_bytes = number;
    }
    // ptxas leaves shared memory out where there is none.
    if (text.find("Used ") != std::string_view::npos && current_->registers && !current_->shared_bytes)
      current_->shared_bytes = 0;
  }

  // "REG:10 STACK:0 SHARED:0 LOCAL:0 …" of cuobjdump -res-usage
  void read_usage_line(std::string_view text) {
    for (const std::string_view word : words_of(text)) {
      const size_t colon = word.find(':');
      const auto number = colon == std::string_view::npos ? std::nullopt : to_integer(word.substr(colon + 1));
      if (!number || *number < 0) continue;
      const std::string_view name = word.substr(0, colon);
      if (name == "REG") current_->registers = number;
      if (name == "STACK") current_->stack_bytes = number;
      if (name == "SHARED") current_->shared_bytes = number;
      if (name == "LOCAL") current_->local_bytes = number;
    }
  }

  std::string arch_;
  std::map<std::pair<std::string, std::string>, size_t> index_;
  std::vector<KernelCode> kernels_;
  KernelCode* current_ = nullptr;  // into kernels_; set anew after every growth
};

}  // namespace

int64_t KernelCode::count(std::string_view kind) const {
  const auto found = counts.find(kind);
  return found == counts.end() ? 0 : found->second;
}

std::optional<bool> KernelCode::spills() const {
  if (spill_store_bytes || spill_load_bytes)
    return spill_store_bytes.value_or(0) + spill_load_bytes.value_or(0) > 0;
  if (has_code()) return count("local_load") + count("local_store") > 0;
  return std::nullopt;
}

std::string KernelCode::readable_name() const {
  constexpr size_t kMaxMangled = 512;  // the demangler recurses
  if (name.size() > kMaxMangled) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && plain ? printable(plain.get(), kMaxName) : name;
}

std::vector<KernelCode> read_code(std::string_view text) {
  CodeReader reader;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    reader.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.take();
}

}  // namespace cheetah::analysis
