// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "model/files/checkpoint.h"
#include "model/model.h"
#include "model/packed/unpack.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "model/weights.h"

namespace cheetah {

struct Model::State {
  // The tokenizer, the special tokens' texts and the chat template, from the checkpoint.
  void read_text_side();

  std::string name;
  std::optional<Checkpoint>
      checkpoint;            // owns the mapped files the weights point into; none for random models
  UnpackedTensors unpacked;  // what they do not hold as it is computed with
  ModelTraits traits;
  ModelWeights weights;
  std::unique_ptr<Tokenizer> tokenizer;  // none in the files: nullptr
  std::unique_ptr<ChatTemplate> chat_template;
  std::string bos_token;
  std::string eos_token;
};

}  // namespace cheetah
