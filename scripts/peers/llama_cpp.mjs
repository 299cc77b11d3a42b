// SPDX-License-Identifier: MIT
// Measures llama.cpp (the prebuilt one of npm's node-llama-cpp) on a GGUF: prompt and decode tokens per second.
// usage: node llama_cpp.mjs MODEL.gguf [threads] [prompt tokens] [generated tokens] [repeats]; run where node-llama-cpp is installed.
import { getLlama } from "node-llama-cpp";

const [model_path, threads = "2", prompt = "512", generated = "64", repeats = "3"] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never" });
llama.maxThreads = Number(threads);
const model = await llama.loadModel({ modelPath: model_path });
const context = await model.createContext({
  contextSize: 1024, batchSize: 512, threads: { ideal: Number(threads), min: Number(threads) }, flashAttention: true,
});
const sequence = context.getSequence();
const tokens = Array.from({ length: Number(prompt) }, (_, i) => 300 + ((i * 7919) % 30000));
const seconds = async (work) => {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start) / 1e9;
};
let best_prompt = Infinity, best_decode = Infinity;
for (let round = 0; round < Number(repeats); ++round) {
  await sequence.clearHistory();
  best_prompt = Math.min(best_prompt, await seconds(() => sequence.evaluateWithoutGeneratingNewTokens(tokens)));
  best_decode = Math.min(best_decode, await seconds(async () => {
    let left = Number(generated);
    for await (const _ of sequence.evaluate([301], { temperature: 0, yieldEogToken: true })) if (--left === 0) break;
  }));
}
console.log(JSON.stringify({
  model: model_path, threads: Number(threads), prompt_tokens_per_s: Number(prompt) / best_prompt,
  decode_tokens_per_s: Number(generated) / best_decode, decode_ms: (best_decode / Number(generated)) * 1e3,
}));
process.exit(0);
