// SPDX-License-Identifier: MIT
#include "quantize/quantize.h"

#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "quantize/sha256.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

std::string key_of(const SourceModel& source, const TargetFormat& target, const QuantizeOptions& options) {
  return format("cheetah quantize 1 {} {} {} {} {}", target.name, options.group,
      source.checkpoint().file_bytes(), sha256_of(fs::absolute(source.path()).string()),
      sha256_of(dump_json(options.gate.calibration)));
}

}  // namespace

void check_out(const TargetFormat& target, const std::string& out) {
  const bool is_gguf = target.layout == Layout::kGguf;
  if (is_gguf != out.ends_with(".gguf"))
    throw UsageError(is_gguf
                         ? format("--out {}: --to {} writes a file that ends in .gguf", out, target.name)
                         : format("--out {}: --to {} writes a folder, not a .gguf file", out, target.name));
  std::error_code error;
  if (fs::exists(out, error))
    throw Error(format("{}: is there already: remove it or give another --out", out));
  const fs::path parent = fs::absolute(out).parent_path();
  if (!fs::is_directory(parent, error))
    throw Error(format("{}: the folder to write to is missing", parent.string()));
}

QuantizeReport quantize(const SourceModel& source, const TargetFormat& target, const QuantizeOptions& options,
    Preparation* preparation, const QuantizeHooks& hooks) {
  check_out(target, options.out);
  const std::string key = key_of(source, target, options);
  QuantizeReport report;
  const auto gate = [&](const std::string& path) {
    report.gate = run_gate(path, source, target.name, options.gate, hooks.gate);
    return report.gate.document.is_null() ? std::string() : dump_json(report.gate.document);
  };
  if (target.layout == Layout::kGguf) {
    report.written = write_gguf(source, target, options.out, key, preparation, hooks.write, gate);
    return report;
  }
  const std::string beside = options.out + ".partial";
  std::error_code error;
  fs::create_directories(beside, error);
  if (error) throw Error(format("{}: cannot be made: {}", beside, error.message()));
  fs::remove(fs::path(beside) / kEvaluationFile, error);  // of an earlier try
  report.written = write_directory(source, target, options.group, beside, key, preparation, hooks.write);
  if (const std::string text = gate(beside); !text.empty())
    write_atomically(
        (fs::path(beside) / kEvaluationFile).string(), dump_json(report.gate.document, 2) + "\n");
  fs::rename(beside, options.out, error);
  if (error) throw Error(format("{}: cannot be put in place: {}", options.out, error.message()));
  return report;
}

}  // namespace cheetah
