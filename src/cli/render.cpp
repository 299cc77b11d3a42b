// SPDX-License-Identifier: MIT
// cheetah render: a chat template and its variables in, the prompt out.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/model_lookup.h"
#include "cli/output.h"
#include "cli/render_input.h"
#include "model/template/chat_template.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah render --input request.json
  echo '{"model": "cub-7m", "messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true}' |
    cheetah render --input -
)";

std::string read_input(const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{128} << 20;
  return path == "-" ? read_standard_input(kMaxBytes) : std::string(MappedFile::open(path).text());
}

int render(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  const RenderInput input =
      read_render_input(read_input(path), name, [](const std::string& model) { return find_model(model); });
  const ChatTemplate chat(input.source, input.name);
  print(chat.render(input.variables, input.now));
  return 0;
}

}  // namespace

void add_render(CLI::App& root, Action& action) {
  CLI::App* command = root.add_subcommand("render", "Print the prompt a chat template makes of messages");
  const auto path = std::make_shared<std::string>();
  command
      ->add_option("--input,input", *path,
          "JSON object with template, template_file or model, and messages, tools, documents, "
          "add_generation_prompt, bos_token, eos_token, now and other variables; - reads standard input")
      ->required();
  command->footer(kExamples);
  command->callback([&action, path] { action = [path] { return render(*path); }; });
}

}  // namespace cheetah
