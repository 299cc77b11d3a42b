// SPDX-License-Identifier: MIT
#pragma once
// Tokens with which chat models end a turn or a text, whatever a GGUF file's metadata says about them.
#include <algorithm>
#include <array>
#include <string_view>

namespace cheetah {

inline constexpr std::array<std::string_view, 20> kTurnEnds = {"</s>", "<|eot_id|>", "<|eom_id|>",
    "<|im_end|>", "<end_of_turn>", "<|end_of_turn|>", "<turn|>", "<|return|>", "<|call|>", "<|end|>",
    "<|end_of_text|>", "<|endoftext|>", "<|END_OF_TURN_TOKEN|>", "<EOT>", "<|EOT|>", "[EOT]", "[EOS]",
    "<|eot|>", "▁<EOT>", "<｜end▁of▁sentence｜>"};

inline bool is_turn_end(std::string_view text) {
  return std::ranges::find(kTurnEnds, text) != kTurnEnds.end();
}

}  // namespace cheetah
