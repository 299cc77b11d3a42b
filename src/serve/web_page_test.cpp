// SPDX-License-Identifier: MIT
#include "serve/web_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "base/json.h"
#include "serve/routes.h"
#include "serve/web_files.h"

namespace cheetah {
namespace {

std::string source_of(const std::string& name) {
  std::ifstream file(std::string(CHEETAH_SOURCE_DIR) + "/web/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Page, TheRootIsThePageItself) {
  const auto root = web_file("/");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->content, web_file("/index.html")->content);
  EXPECT_EQ(root->content_type, "text/html; charset=utf-8");
  EXPECT_NE(root->content.find("<title>Cheetah</title>"), std::string_view::npos);
}

TEST(Page, EveryFileIsEmbeddedByteForByte) {
  ASSERT_GE(embedded_web_files().size(), 5u);
  std::set<std::string_view> etags;
  for (const EmbeddedFile& file : embedded_web_files()) {
    EXPECT_EQ(file.content, source_of(std::string(file.name))) << file.name;
    const auto found = web_file("/" + std::string(file.name));
    ASSERT_TRUE(found) << file.name;
    EXPECT_FALSE(found->content_type.empty());
    EXPECT_TRUE(found->etag.starts_with('"') && found->etag.ends_with('"')) << found->etag;
    etags.insert(found->etag);
  }
  EXPECT_EQ(etags.size(), embedded_web_files().size());
}

// Routes with a parameter end in "/"; the document may have further parts behind it.
TEST(Page, TheDocumentOfTheApiHasEveryRoute) {
  const Json document = Json::parse(web_file("/openapi.json")->content);
  const auto documented = [&](const Route& route) {
    std::string method(route.method);
    std::ranges::transform(
        method, method.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const auto& [path, operations] : document["paths"].items()) {
      const std::string_view bare =
          path.starts_with("/v1/") ? std::string_view(path).substr(3) : std::string_view(path);
      const bool parameter = route.path.size() > 1 && route.path.ends_with('/');
      if (operations.contains(method) && (parameter ? bare.starts_with(route.path) : bare == route.path))
        return true;
    }
    return false;
  };
  for (const Route& route : routes())
    EXPECT_TRUE(route.kind == RouteKind::kPage || documented(route)) << route.method << " " << route.path;
}

TEST(Page, OtherPathsAreNotThere) {
  for (const char* path :
      {"", "index.html", "/page", "/../page.js", "/PAGE.JS", "//", "/index.html/", "/web/page.js"})
    EXPECT_FALSE(web_file(path)) << path;
}

TEST(Page, WhatItRefersToIsEmbedded) {
  const std::regex reference(R"re((?:src|href|from)[= ]"(?:\./)?([a-z0-9_.-]+\.(?:js|css|svg))")re");
  for (const EmbeddedFile& file : embedded_web_files()) {
    const std::string text(file.content);
    for (std::sregex_iterator at(text.begin(), text.end(), reference), end; at != end; ++at)
      EXPECT_TRUE(web_file("/" + (*at)[1].str())) << file.name << " wants " << (*at)[1];
  }
}

TEST(Page, AsksNothingOfOtherServersAndPutsNoTextIntoMarkup) {
  for (const EmbeddedFile& file : embedded_web_files()) {
    const std::string text =
        std::regex_replace(std::string(file.content), std::regex("http://www\\.w3\\.org/2000/svg"), "");
    for (const char* word :
        {"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
      EXPECT_EQ(text.find(word), std::string::npos) << file.name << ": " << word;
  }
}

}  // namespace
}  // namespace cheetah
