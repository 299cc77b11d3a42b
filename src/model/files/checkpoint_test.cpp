// SPDX-License-Identifier: MIT
#include "model/files/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "base/error.h"
#include "model/files/foreign_file.h"
#include "model/files/hub_cache.h"
#include "model/files/model_directory.h"
#include "model/files/model_test_files.h"

namespace cheetah {
namespace {

using test::GgufBuilder;
using test::small_safetensors;
using test::TemporaryDirectory;

const std::string kModels = std::string(CHEETAH_SOURCE_DIR) + "/tests/models/";

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string open_error(const std::string& path) {
  return error_of([&] { Checkpoint::open(path); });
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string index_of(const std::string& a_file, const std::string& b_file) {
  return format(R"({{"metadata":{{}},"weight_map":{{"a":"{}","b":"{}"}}}})", a_file, b_file);
}

// A model of two shards, complete.
void write_sharded(const TemporaryDirectory& directory) {
  directory.write("config.json", R"({"model_type":"llama"})");
  directory.write("model-1.safetensors", small_safetensors("a"));
  directory.write("model-2.safetensors", small_safetensors("b"));
  directory.write("model.safetensors.index.json", index_of("model-1.safetensors", "model-2.safetensors"));
}

TEST(Checkpoint, OpensAHuggingFaceDirectory) {
  const Checkpoint checkpoint = Checkpoint::open(kModels + "llama");
  EXPECT_EQ(checkpoint.kind(), Checkpoint::Kind::kHuggingFace);
  EXPECT_EQ(checkpoint.config()["model_type"], "llama");
  EXPECT_TRUE(checkpoint.tensors().contains("model.embed_tokens.weight"));
  EXPECT_TRUE(checkpoint.text_file("tokenizer.json"));
  EXPECT_FALSE(checkpoint.text_file("vocab.txt"));
  EXPECT_TRUE(checkpoint.generation_config().is_object());
  EXPECT_GT(checkpoint.file_bytes(), 0);
  checkpoint.prefetch();
}

TEST(Checkpoint, OpensEveryReferenceModel) {
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    EXPECT_GT(Checkpoint::open(entry.path().string()).tensors().size(), 0u) << entry.path();
    ++opened;
  }
  EXPECT_GE(opened, 7);
}

TEST(Checkpoint, OpensASingleSafetensorsFileBesideItsConfig) {
  const Checkpoint checkpoint = Checkpoint::open(kModels + "llama/model.safetensors");
  EXPECT_EQ(checkpoint.config()["model_type"], "llama");
  EXPECT_TRUE(checkpoint.text_file("tokenizer.json"));
}

TEST(Checkpoint, OpensEveryGgufFile) {
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kModels + "gguf")) {
    if (entry.path().extension() != ".gguf") continue;
    const Checkpoint checkpoint = Checkpoint::open(entry.path().string());
    ASSERT_EQ(checkpoint.kind(), Checkpoint::Kind::kGguf);
    EXPECT_EQ(checkpoint.gguf()->string("general.architecture"), "llama");
    EXPECT_EQ(checkpoint.tensors().at("token_embd.weight").shape.rank(), 2);
    EXPECT_GT(checkpoint.file_bytes(), 0);
    EXPECT_FALSE(checkpoint.text_file("tokenizer.json"));
    checkpoint.prefetch();
    ++opened;
  }
  EXPECT_GE(opened, 4);
}

TEST(Checkpoint, KnowsGgufByItsContentUnderAnyName) {
  const TemporaryDirectory directory;
  const std::string path =
      directory.write("blob", GgufBuilder().string("general.architecture", "llama").build());
  EXPECT_EQ(Checkpoint::open(path).kind(), Checkpoint::Kind::kGguf);
}

TEST(Checkpoint, OpensTheOneGgufModelOfADirectory) {
  const TemporaryDirectory directory;
  directory.write("model.gguf", GgufBuilder().u32("n", 1).build());
  directory.write("README.md", "");
  EXPECT_EQ(Checkpoint::open(directory.path()).gguf()->integer("n"), 1);
  directory.write("other.gguf", GgufBuilder().build());
  EXPECT_MENTIONS(open_error(directory.path()), "name the one you want");
}

TEST(Checkpoint, OpensShardsThroughTheIndex) {
  const TemporaryDirectory directory;
  write_sharded(directory);
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_TRUE(checkpoint.generation_config().empty());
}

TEST(Checkpoint, ViewsSurviveAMove) {
  Checkpoint first = Checkpoint::open(kModels + "llama");
  const TensorView view = first.tensors().begin()->second;
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.tensors().begin()->second.data, view.data);
  EXPECT_NE(view.data[view.bytes() - 1], view.data[0]);
}

TEST(Checkpoint, RefusesABrokenIndex) {
  const struct {
    const char* rule;
    std::string index;
    const char* message;
  } cases[] = {
      {"no weight_map", "{}", "weight_map is missing"},
      {"weight_map a list", R"({"weight_map":[]})", "weight_map is missing or not an object"},
      {"not an object", "[]", "weight_map is missing"},
      {"not JSON", "{", "invalid JSON"},
      {"shard not a string", R"({"weight_map":{"a":1}})", "must name a file"},
      {"missing shard", index_of("model-1.safetensors", "model-9.safetensors"),
          "shard model-9.safetensors is missing"},
      {"parent directory", index_of("model-1.safetensors", "../a.safetensors"), "not a plain file name"},
      {"absolute path", index_of("model-1.safetensors", "/etc/passwd"), "not a plain file name"},
      {"dots", index_of("model-1.safetensors", ".."), "not a plain file name"},
      {"backslash", index_of("model-1.safetensors", "a\\\\b"), "not a plain file name"},
      {"NUL", index_of("model-1.safetensors", "a\\u0000b"), "not a plain file name"},
      {"empty name", index_of("model-1.safetensors", ""), "not a plain file name"},
      {"tensor in another shard", index_of("model-2.safetensors", "model-1.safetensors"),
          "tensor \"a\" is not in model-2.safetensors"},
      {"tensor twice", R"({"weight_map":{"a":"model-1.safetensors","a":"model-2.safetensors"}})",
          "stands twice"},
  };
  for (const auto& bad : cases) {
    const TemporaryDirectory directory;
    write_sharded(directory);
    directory.write("model.safetensors.index.json", bad.index);
    const std::string error = open_error(directory.path());
    EXPECT_NE(error.find(bad.message), std::string::npos) << bad.rule << ": " << error;
  }
}

TEST(Checkpoint, RefusesATensorThatIsInTwoShards) {
  const TemporaryDirectory directory;
  write_sharded(directory);
  directory.write("model-2.safetensors", small_safetensors("a"));
  EXPECT_MENTIONS(open_error(directory.path()), "is in another shard too");
}

TEST(Checkpoint, RefusesALinkOutOfTheDirectory) {
  const TemporaryDirectory elsewhere;
  const std::string secret = elsewhere.write("secret.safetensors", small_safetensors("b"));
  const TemporaryDirectory directory;
  write_sharded(directory);
  std::filesystem::remove(directory.path("model-2.safetensors"));
  directory.link("model-2.safetensors", secret);
  EXPECT_MENTIONS(open_error(directory.path()), "leads out of the model's directory");
}

TEST(Checkpoint, FollowsALinkThatStaysInside) {
  const TemporaryDirectory directory;
  write_sharded(directory);
  std::filesystem::create_directory(directory.path("store"));
  std::filesystem::rename(directory.path("model-2.safetensors"), directory.path("store/x"));
  directory.link("model-2.safetensors", "store/x");
  EXPECT_EQ(Checkpoint::open(directory.path()).tensors().size(), 2u);
}

TEST(Checkpoint, FollowsTheLinksOfTheHubCache) {
  const TemporaryDirectory hub;
  hub.write("models--org--name/blobs/11", R"({"model_type":"llama"})");
  hub.write("models--org--name/blobs/22", small_safetensors("a"));
  hub.write("models--org--name/refs/main", "abc\n");
  hub.link("models--org--name/snapshots/abc/config.json", "../../blobs/11");
  hub.link("models--org--name/snapshots/abc/model.safetensors", "../../blobs/22");
  const std::string path = resolve_model_reference("org/name", hub.path());
  EXPECT_EQ(Checkpoint::open(path).tensors().size(), 1u);
  EXPECT_EQ(Checkpoint::open(path + "/model.safetensors").tensors().size(), 1u);

  hub.link("models--org--name/snapshots/abc/tokenizer.json", "../../../models--org--name/refs/main");
  EXPECT_THROW(Checkpoint::open(path).text_file("tokenizer.json"), Error);
}

TEST(Checkpoint, ResolvesReferences) {
  const TemporaryDirectory hub;
  hub.write("models--org--one/snapshots/abc/config.json", "{}");
  EXPECT_EQ(resolve_model_reference(hub.path(), ""), hub.path());
  EXPECT_TRUE(resolve_model_reference("org/one", hub.path()).ends_with("snapshots/abc"));
  hub.write("models--org--one/snapshots/def/config.json", "{}");
  EXPECT_MENTIONS(error_of([&] { resolve_model_reference("org/one", hub.path()); }), "2 revisions");
  hub.write("models--org--one/refs/main", "../../..");
  EXPECT_THROW(resolve_model_reference("org/one", hub.path()), Error);
  EXPECT_MENTIONS(
      error_of([&] { resolve_model_reference("org/none", hub.path()); }), "neither a path nor a model");
  EXPECT_MENTIONS(error_of([&] { resolve_model_reference("org/none", ""); }), "no such file");
  EXPECT_MENTIONS(error_of([&] { resolve_model_reference("../none", hub.path()); }), "no such file");
}

TEST(Checkpoint, SaysWhichPieceIsMissing) {
  const TemporaryDirectory directory;
  EXPECT_MENTIONS(open_error(directory.path("absent")), "no such file or directory");
  EXPECT_MENTIONS(open_error(directory.path()), "the directory is empty");
  directory.write("README.md", "hello");
  EXPECT_MENTIONS(open_error(directory.path()), "no weights");
  directory.write("model.safetensors.incomplete", "x");
  EXPECT_MENTIONS(open_error(directory.path()), "unfinished download");
  directory.write("model.onnx", "x");
  EXPECT_MENTIONS(open_error(directory.path()), "a format we do not read");
  directory.write("pytorch_model.bin", "x");
  EXPECT_MENTIONS(open_error(directory.path()), "PyTorch pickle");
  directory.write("model.safetensors", small_safetensors("a"));
  EXPECT_MENTIONS(open_error(directory.path()), "config.json is missing");
  EXPECT_MENTIONS(open_error(directory.path("model.safetensors")), "config.json is missing");
  directory.write("adapter_config.json", "{}");
  EXPECT_MENTIONS(open_error(directory.path()), "adapter");
  directory.write("config.json", "[]");
  EXPECT_MENTIONS(open_error(directory.path()), "expected a JSON object");
  directory.write("config.json", "{}");
  EXPECT_EQ(open_error(directory.path()), "");
  directory.write("generation_config.json", "3");
  EXPECT_MENTIONS(open_error(directory.path()), "generation_config.json: expected a JSON object");
}

TEST(Checkpoint, NeedsAnIndexForSeveralFiles) {
  const TemporaryDirectory directory;
  write_sharded(directory);
  std::filesystem::remove(directory.path("model.safetensors.index.json"));
  EXPECT_MENTIONS(open_error(directory.path()), "no model.safetensors.index.json");
  std::filesystem::remove(directory.path("model-2.safetensors"));
  EXPECT_EQ(Checkpoint::open(directory.path()).tensors().size(), 1u) << "one file under any name";
}

TEST(Checkpoint, SaysWhatAForeignFileIs) {
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git-lfs pointer"},
      {std::string("PK\x03\x04\x14\0\0\0", 8), "zip archive or a PyTorch pickle"},
      {"\x80\x02\x8a\nl\xfc\x9c", "PyTorch pickle"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {"\x93NUMPY\1", "NumPy"},
      {"<!DOCTYPE html><html>", "web page"},
      {"\n <HTML><body>", "web page"},
      {"\x08\x07\x12\x07pytorch", "ONNX"},
      {"\x1f\x8b\x08", "gzip"},
      {"{\"a\": 1}", "JSON text"},
      {"", "empty"},
  };
  for (const auto& foreign : cases) {
    const TemporaryDirectory directory;
    for (const char* name : {"model.safetensors", "model.gguf", "model.bin"})
      EXPECT_MENTIONS(open_error(directory.write(name, foreign.bytes)), foreign.message);
  }
  EXPECT_FALSE(describe_foreign_file(test::as_bytes("hello"), "a.txt"));
}

TEST(Checkpoint, RefusesWhatIsNotAFile) {
  const TemporaryDirectory directory;
  ASSERT_EQ(mkfifo(directory.path("pipe.gguf").c_str(), 0600), 0);
  EXPECT_MENTIONS(open_error(directory.path("pipe.gguf")), "not a regular file");
  EXPECT_MENTIONS(open_error("/dev/zero"), "not a regular file");
  directory.link("loop.gguf", "loop.gguf");
  EXPECT_NE(open_error(directory.path("loop.gguf")), "");
}

TEST(ModelDirectory, ReadsOnlyPlainNames) {
  const TemporaryDirectory directory;
  directory.write("a.txt", "text");
  EXPECT_EQ(read_model_text(directory.path(), "a.txt"), "text");
  EXPECT_EQ(read_model_text(directory.path(), "b.txt"), std::nullopt);
  EXPECT_THROW(read_model_text(directory.path(), "../a.txt"), Error);
  EXPECT_THROW(read_model_text(directory.path("absent"), "a.txt"), Error);
  directory.link("dangling", "nowhere");
  EXPECT_THROW(read_model_text(directory.path(), "dangling"), Error);
}

}  // namespace
}  // namespace cheetah
