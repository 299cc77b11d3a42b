// SPDX-License-Identifier: MIT
#pragma once
// One function object of many lambdas, for std::visit: an alternative without a handler does not compile.

namespace cheetah::cluster {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;  // clang 14 does not find it by itself

}  // namespace cheetah::cluster
