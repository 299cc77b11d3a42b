// SPDX-License-Identifier: MIT
#pragma once
// A subcommand is one file with one function that declares its flags. main.cpp lists these functions.
#include <functional>

namespace CLI {
class App;
}

namespace cheetah {

// What a parsed command line asks for; returns the exit code (0 done, 1 a check failed, 130 interrupted).
using Action = std::function<int()>;

// Adds a subcommand to `root`; when the person chose it, its callback stores the work in `action`, which main
// runs after all flags are known to be good.
using AddCommand = void (*)(CLI::App& root, Action& action);

void add_generate(CLI::App& root, Action& action);
void add_chat(CLI::App& root, Action& action);
void add_verify(CLI::App& root, Action& action);
void add_eval(CLI::App& root, Action& action);
void add_quantize(CLI::App& root, Action& action);
void add_inspect(CLI::App& root, Action& action);
void add_tokenize(CLI::App& root, Action& action);
void add_render(CLI::App& root, Action& action);
void add_serve(CLI::App& root, Action& action);
void add_run_batch(CLI::App& root, Action& action);
void add_bench(CLI::App& root, Action& action);
void add_doctor(CLI::App& root, Action& action);
void add_lab(CLI::App& root, Action& action);
void add_cluster(CLI::App& root, Action& action);
void add_help(CLI::App& root, Action& action);
void add_completion(CLI::App& root, Action& action);
void add_man(CLI::App& root, Action& action);
void add_version(CLI::App& root, Action& action);
void add_pull(CLI::App& root, Action& action);
void add_list(CLI::App& root, Action& action);
void add_rm(CLI::App& root, Action& action);

}  // namespace cheetah
