// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <cstdio>
#include <initializer_list>
#include <new>

#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/signals.h"

namespace cheetah {
namespace {

constexpr std::initializer_list<AddCommand> kCommands = {
    add_generate,
    add_chat,
    add_pull,
    add_list,
    add_rm,
    add_verify,
    add_eval,
    add_quantize,
    add_inspect,
    add_tokenize,
    add_render,
    add_serve,
    add_run_batch,
    add_bench,
    add_doctor,
    add_lab,
    add_cluster,
    add_help,
    add_completion,
    add_man,
    add_version,
};

int run(int argc, char** argv) {
  CLI::App app("Cheetah: the performance system for large language models", "cheetah");
  app.set_help_flag("-h,--help", "show this page");
  Action action;
  for (const AddCommand add : kCommands) add(app, action);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  const int code = action();
  flush_output();
  return code;
}

int fail(const std::string& message, int code) {
  print_error(message);
  return code;
}

}  // namespace
}  // namespace cheetah

int main(int argc, char** argv) {
  using namespace cheetah;
  open_missing_standard_files();
  install_signal_handlers();
  try {
    return run(argc, argv);
  } catch (const OutputClosed&) {
    return 0;  // the reader has seen enough: `cheetah … | head`
  } catch (const UsageError& error) {
    return fail(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return fail("out of memory: use a smaller model, context (--ctx-size) or batch", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}
