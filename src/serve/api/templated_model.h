// SPDX-License-Identifier: MIT
#pragma once
// For tests: the small model with another chat template.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/tokenizer/tokenizer.h"
#include "serve/api/api_fixture.h"

namespace cheetah {

// The small model with a chat template of its own, in a folder that lives as long as this.
class TemplatedModel {
 public:
  explicit TemplatedModel(const std::string& chat_template) {
    namespace fs = std::filesystem;
    const fs::path source = fs::absolute(fs::path(CHEETAH_SOURCE_DIR) / "models/cub-1m");
    folder_ = fs::temp_directory_path() /
              ("cheetah-template-" + std::to_string(getpid()) + "-" + std::to_string(next_++));
    fs::create_directories(folder_);
    for (const char* name : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
             "tokenizer_config.json"})
      fs::copy_file(source / name, folder_ / name);
    std::ofstream(folder_ / "chat_template.jinja") << chat_template;
    LoadOptions options;
    options.show_progress = false;
    model_ = Model::load(folder_.string(), options);
    grammars_ = std::make_unique<GrammarCache>(*model_);
  }
  ~TemplatedModel() { std::filesystem::remove_all(folder_); }

  ApiServices services() { return make_services(*model_, *grammars_); }
  std::string prompt(const std::string& body) {
    const ApiCall call = accepted(parse_chat_completion, body, services());
    return call.requests.empty() ? "" : model_->tokenizer()->decode(call.requests[0].prompt, false);
  }

 private:
  static inline int next_ = 0;
  std::filesystem::path folder_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<GrammarCache> grammars_;
};

}  // namespace cheetah
