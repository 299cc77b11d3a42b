// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace cheetah {

// Messages typed at a terminal: the line can be edited, earlier ones come back with the arrow keys and stay for the next
// session, a paste of several lines is one message, Alt-Enter begins a new line and Tab completes commands. Without
// libedit the terminal's own line editing is what there is.
class LineEditor {
 public:
  // `history`: the file that keeps messages, "" for none. `commands`: what Tab completes.
  LineEditor(std::string history, std::vector<std::string> commands);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Event { kMessage, kEnd, kInterrupted };
  // Shows the prompt and waits. Ctrl-C throws a typed message away, and interrupts when there is none.
  Event read(const std::string& prompt, std::string& message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
