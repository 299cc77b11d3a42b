// SPDX-License-Identifier: MIT
#include "cli/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/serve_options.h"

namespace cheetah {
namespace {

const char* no_variables(const char*) { return nullptr; }

// A file of its own for each test, gone with it.
struct TempFile {
  explicit TempFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "settings-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    EXPECT_GE(fd, 0);
    close(fd);
    path = pattern;
    std::ofstream(path) << text;
  }
  ~TempFile() { std::filesystem::remove(path); }
  std::string path;
};

struct Parsed {
  ServeOptions options;
  Settings settings = serve_settings(options);
  CLI::App app;
  Parsed() { settings.add_flags(app); }
  void parse(const std::string& line) { app.parse(line); }
};

std::string mistake(const std::string& file_text, const std::string& flags = "") {
  const TempFile file(file_text);
  Parsed p;
  try {
    p.parse(flags);
    p.settings.resolve(file.path, no_variables);
  } catch (const UsageError& error) {
    std::string text = error.what();
    const size_t at = text.find(file.path);
    return at == std::string::npos ? text : text.replace(at, file.path.size(), "FILE");
  }
  return "";
}

TEST(Settings, ComeFromFlagsBeforeVariablesBeforeTheFileBeforeDefaults) {
  const TempFile file("port = 1\nmax-queue = 2\nmax-sequences = 3\n[log]\nlevel = \"error\"\n");
  Parsed p;
  p.parse("--port 10");
  p.settings.resolve(file.path, [](const char* name) {
    return std::string_view(name) == "CHEETAH_PORT"        ? "20"
           : std::string_view(name) == "CHEETAH_MAX_QUEUE" ? "32k"
                                                           : nullptr;
  });
  EXPECT_EQ(p.options.port, 10);
  EXPECT_EQ(p.options.config.max_queue, 32'000);
  EXPECT_EQ(p.options.config.max_sequences, 3);
  EXPECT_EQ(p.options.log_level, "error");
  EXPECT_EQ(p.options.shutdown_timeout_s, 30);
  const std::string printed = p.settings.print();
  for (const char* text : {"# --port\n", "# CHEETAH_MAX_QUEUE\n", ": max-sequences\n", "# default\n"})
    EXPECT_NE(printed.find(text), std::string::npos) << text;
}

TEST(Settings, TakeEveryKindOfValue) {
  const TempFile file(
      "insecure = true\ncors-origin = [\"https://a.example\", \"https://b.example\"]\nstep-target-ms = "
      "12.5\nmax-body = \"2MiB\"\nheader-timeout = \"500ms\"\n");
  Parsed p;
  p.parse("--no-prefix-cache -c 2K some-model");
  p.settings.resolve(file.path, no_variables);
  EXPECT_TRUE(p.options.insecure);
  EXPECT_EQ(p.options.server.cors_origins.size(), 2u);
  EXPECT_EQ(p.options.config.step_target_ms, 12.5);
  EXPECT_EQ(p.options.server.listen.limits.body_bytes, 2 << 20);
  EXPECT_EQ(p.options.header_timeout_s, 0.5);
  EXPECT_TRUE(p.options.no_prefix_cache);
  EXPECT_EQ(p.options.config.max_context, 2048);
  EXPECT_EQ(p.options.engine.model, "some-model");
}

TEST(Settings, ArePrintedAsAFileThatSaysTheSame) {
  Parsed first;
  first.parse(
      "--port 10 --header-timeout 250ms --insecure --max-body 3MiB --cors-origin a,b --max-queue 32k");
  first.settings.resolve("", no_variables);
  const TempFile file(first.settings.print());
  Parsed again;
  again.parse("");
  again.settings.resolve(file.path, no_variables);
  EXPECT_EQ(again.options.port, 10);
  EXPECT_EQ(again.options.header_timeout_s, 0.25);
  EXPECT_TRUE(again.options.insecure);
  EXPECT_EQ(again.options.server.listen.limits.body_bytes, 3 << 20);
  EXPECT_EQ(again.options.server.cors_origins, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(again.options.config.max_queue, 32'000);
}

TEST(Settings, NameThePlaceOfAMistake) {
  EXPECT_EQ(mistake("prot = 8000\n"), "FILE:1:8: unknown key 'prot' (did you mean 'port'?)");
  EXPECT_EQ(mistake("\nport = 70000\n").substr(0, 11), "FILE: port:");
  EXPECT_EQ(mistake("port = [[1]]\n").substr(0, 9), "FILE:1:8:");
  EXPECT_EQ(mistake("port = \n").substr(0, 7), "FILE:1:");
  EXPECT_EQ(mistake("port = 1\nport = 2\n").substr(0, 7), "FILE:2:");
  EXPECT_EQ(mistake("log-level = \"loud\"\n").substr(0, 16), "FILE: log-level:");
  EXPECT_EQ(mistake("", "--port 8000x").substr(0, 7), "--port:");
  EXPECT_EQ(mistake("", "--header-timeout 5x").substr(0, 17), "--header-timeout:");
  EXPECT_EQ(mistake("", "--kv-dtype f3").substr(0, 11), "--kv-dtype:");
}

TEST(Settings, NameAVariableThatIsWrong) {
  Parsed p;
  p.parse("");
  try {
    p.settings.resolve(
        "", [](const char* name) { return std::string_view(name) == "CHEETAH_PORT" ? "many" : nullptr; });
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 13), "CHEETAH_PORT:");
  }
}

TEST(ServeOptions, RefuseToBeOpenToTheNetworkWithoutAKey) {
  ServeOptions options;
  options.server.listen.host = "0.0.0.0";
  EXPECT_THROW(server_config(options, nullptr), UsageError);
  EXPECT_THROW(server_config(options, "short"), UsageError);
  EXPECT_TRUE(server_config(options, "long-enough").keys.required());
  options.insecure = true;
  EXPECT_FALSE(server_config(options, nullptr).keys.required());
}

TEST(ServeOptions, NeedBothHalvesOfTls) {
  ServeOptions options;
  options.server.listen.tls_cert = "cert.pem";
  EXPECT_THROW(server_config(options, nullptr), UsageError);
}

}  // namespace
}  // namespace cheetah
