// SPDX-License-Identifier: MIT
#include "hub/hub_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/temp_dir.h"

namespace cheetah::hub {
namespace {

HubSettings settings_of(std::map<std::string, std::string> variables) {
  return hub_settings([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Url server(const std::string& host, bool tls = true) {
  return {.tls = tls, .host = host, .port = tls ? "443" : "80", .path = ""};
}

TEST(HubSettings, ComeFromTheVariablesPythonsLibrariesRead) {
  const HubSettings plain = settings_of({{"HOME", "/home/a"}});
  EXPECT_EQ(plain.endpoint.text(), "https://huggingface.co");
  EXPECT_EQ(plain.cache, "/home/a/.cache/huggingface/hub");
  EXPECT_EQ(settings_of({{"HF_HOME", "/hf"}, {"HOME", "/home/a"}}).cache, "/hf/hub");
  EXPECT_EQ(settings_of({{"HF_HUB_CACHE", "/cache"}, {"HF_HOME", "/hf"}}).cache, "/cache");
  EXPECT_EQ(settings_of({{"HF_ENDPOINT", "http://mirror:8080/hf"}}).endpoint.text(), "http://mirror:8080/hf");
  EXPECT_THROW(settings_of({{"HF_ENDPOINT", "mirror"}}), UsageError);
  EXPECT_TRUE(settings_of({{"HF_HUB_OFFLINE", "1"}}).offline);
}

TEST(HubSettings, TakeTheTokenFromTheVariableOrItsFile) {
  const TempDir folder;
  folder.write("token", "hf_file\n");
  EXPECT_EQ(settings_of({{"HF_HOME", folder.path()}}).token, "hf_file");
  EXPECT_EQ(settings_of({{"HF_HOME", folder.path()}, {"HF_TOKEN", "hf_variable"}}).token, "hf_variable");
  EXPECT_EQ(settings_of({{"HF_TOKEN_PATH", folder.path("token")}}).token, "hf_file");
  EXPECT_THROW(settings_of({{"HF_TOKEN", "a\r\nX: y"}}), UsageError);
  EXPECT_THROW(read_token(folder.path("none")), UsageError);
}

TEST(HubSettings, AskTheProxyUnlessTheServerIsExcepted) {
  const HubSettings s = settings_of(
      {{"HTTPS_PROXY", "http://me:secret@proxy:3128"}, {"NO_PROXY", "localhost, .example.com,10.0.0.1:443"}});
  const auto proxy = proxy_for(s, server("huggingface.co"));
  ASSERT_TRUE(proxy);
  EXPECT_EQ(proxy->url.text(), "http://proxy:3128");
  EXPECT_EQ(proxy->authorization, "Basic bWU6c2VjcmV0");
  EXPECT_FALSE(proxy_for(s, server("huggingface.co", false)));
  for (const char* direct : {"localhost", "example.com", "a.example.com", "10.0.0.1"})
    EXPECT_FALSE(proxy_for(s, server(direct))) << direct;
  EXPECT_TRUE(proxy_for(s, server("notexample.com")));
  EXPECT_FALSE(proxy_for(settings_of({{"ALL_PROXY", "http://p:1"}, {"no_proxy", "*"}}), server("x")));
  EXPECT_TRUE(proxy_for(settings_of({{"ALL_PROXY", "p:1"}}), server("x")));
  EXPECT_THROW(proxy_for(settings_of({{"HTTPS_PROXY", "socks5://p:1"}}), server("x")), UsageError);
}

}  // namespace
}  // namespace cheetah::hub
