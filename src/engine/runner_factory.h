// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "engine/engine_config.h"
#include "model/model.h"

namespace cheetah {

// Makes what runs the model on the config's device. The threads and the model outlive it.
using RunnerFactory = std::function<std::unique_ptr<Runner>(const Model&, const EngineConfig&, ThreadPool&)>;
std::unique_ptr<Runner> make_engine_runner(
    const Model& model, const EngineConfig& config, ThreadPool& threads);

}  // namespace cheetah
