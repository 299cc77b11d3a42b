// SPDX-License-Identifier: MIT
// cheetah lab sass: what the compiler made of kernels.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "base/run_tool.h"
#include "base/text.h"
#include "cli/lab_analysis.h"
#include "cli/output.h"
#include "lab/analysis/sass.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
FILE is a program, library, object or cubin (needs cuobjdump of the CUDA toolkit), PTX (needs ptxas), or text that
cuobjdump -sass -res-usage, nvdisasm or ptxas -v (nvcc -Xptxas -v) printed.

Examples:
  cheetah lab sass build/cheetah --kernel rms_norm
  nvcc -Xptxas -v -c kernel.cu 2> report.txt && cheetah lab sass report.txt
  cheetah lab sass kernel.cubin --expect tma,wgmma,no-spills
)";

constexpr int64_t kMaxBytes = int64_t{1} << 30;

struct SassOptions {
  std::string file, kernel;
  std::vector<std::string> expect;
  bool json = false;
};

// What the tool says of the file. Throws Error when it is missing, too slow or refuses.
std::string ask(const std::string& tool, std::vector<std::string> arguments, const std::string& path,
    const std::string& otherwise) {
  arguments.insert(arguments.begin(), tool);
  const ToolResult result =
      run_tool(arguments, {.time = std::chrono::minutes(5), .output_bytes = kMaxBytes, .with_errors = true});
  if (!result.started)
    throw Error(format("{}: {} is not installed (CUDA toolkit); {}", path, tool, otherwise));
  if (!result.complete) throw Error(format("{}: {} took over five minutes or said over 1 GiB", path, tool));
  if (result.exit_code != 0)
    throw Error(format("{}: {} failed: {}", path, tool, printable(trimmed(result.output), 300)));
  return result.output;
}

std::string ptx_target(std::string_view text) {
  const size_t at = text.find(".target ");
  const std::string_view rest = at == std::string_view::npos ? "" : text.substr(at + 8);
  const std::string_view arch = rest.substr(0, rest.find_first_of(", \n\r\t"));
  for (const char c : arch)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return "sm_90a";
  return arch.starts_with("sm_") ? std::string(arch) : "sm_90a";
}

std::string code_of(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  if (file.size() > kMaxBytes) throw Error(format("{}: larger than 1 GiB", path));
  const std::string_view text = file.text(), start = text.substr(0, 65536);
  const std::string absolute = std::filesystem::absolute(path).string();  // never read as a flag
  const bool binary = start.find('\0') != std::string_view::npos || start.starts_with("!<arch>");
  if (binary)
    return ask("cuobjdump", {"-sass", "-res-usage", absolute}, path,
        "give the report of 'nvcc -Xptxas -v' instead, or install cuda-cuobjdump");
  if (start.find(".version") != std::string_view::npos && start.find(".target ") != std::string_view::npos)
    return ask("ptxas", {"-v", "--gpu-name", ptx_target(text), "-o", "/dev/null", absolute}, path,
        "give its report instead");
  return std::string(text);
}

// How many claims fail or cannot be told, each named.
int broken_claims(const std::vector<analysis::KernelCode>& kernels, const std::vector<std::string>& claims) {
  int broken = 0;
  for (const analysis::KernelCode& kernel : kernels)
    for (const std::string& claim : claims) {
      const auto holds = analysis::claim_holds(kernel, claim);
      if (holds == true) continue;
      ++broken;
      print_note(format("{}: {} {}", kernel.readable_name(), claim,
          holds ? "does not hold" : "cannot be told without a disassembly"));
    }
  return broken;
}

int run_sass(const SassOptions& options) {
  std::vector<analysis::KernelCode> kernels = analysis::read_code(code_of(options.file));
  if (kernels.empty()) throw Error(format("{}: no kernel in it", options.file));
  std::erase_if(kernels, [&](const analysis::KernelCode& kernel) {
    return kernel.readable_name().find(options.kernel) == std::string::npos &&
           kernel.name.find(options.kernel) == std::string::npos;
  });
  if (kernels.empty())
    throw Error(format("{}: no kernel's name contains '{}'", options.file, printable(options.kernel)));
  print(options.json ? dump_json(analysis::code_json(kernels), 2) + "\n" : analysis::code_text(kernels));
  return broken_claims(kernels, options.expect) > 0 ? 1 : 0;
}

}  // namespace

void add_lab_sass(CLI::App& lab, Action& action) {
  auto* command =
      lab.add_subcommand("sass", "Vector widths, TMA, WGMMA, spills and registers of compiled kernels");
  auto options = std::make_shared<SassOptions>();
  command->add_option("file", options->file, "program, object, cubin, PTX, or a report as text")->required();
  command->add_option("--kernel", options->kernel, "only kernels whose name contains this");
  command
      ->add_option("--expect", options->expect,
          "exit with 1 unless these hold for every kernel: vector-loads, readonly, tma, wgmma, mma, "
          "cp-async, no-spills")
      ->delimiter(',')
      ->check(CLI::IsMember(analysis::code_claims()));
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_sass(*options); }; });
}

}  // namespace cheetah
