#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  CLI::App app("Cheetah: the performance system for large language models");
  app.set_version_flag("--version", cheetah::version_text());
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  return 0;
}
