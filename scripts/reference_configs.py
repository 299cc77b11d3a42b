# SPDX-License-Identifier: MIT
"""The tiny random models that make_reference_models.py makes: name -> (model_type, settings).

MODELS are kept in tests/models. VARIANTS are further settings of the same families: too many to keep, made to check that
every setting is read and computed as transformers does. The config.json of a model whose name ends in "-given" holds these
settings alone, as older files do, not what transformers makes of them.
"""
COMMON = dict(vocab_size=512, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-6, initializer_range=0.25,
              bos_token_id=0, eos_token_id=0, pad_token_id=None, tie_word_embeddings=False)
MLA = dict(num_key_value_heads=4, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16,
           moe_intermediate_size=32, n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3,
           first_k_dense_replace=1, routed_scaling_factor=1.5)
OMIT = object()  # a setting that is not given


def yarn(**more):
    return dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32, **more)


def turned(part):
    return dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=part)


GLM_SIZES = dict(head_dim=16, intermediate_size=32, moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3)
GLM = dict(GLM_SIZES, attention_bias=True, use_qk_norm=True, n_shared_experts=2, n_group=4, topk_group=2,
           first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True, rope_parameters=turned(0.5),
           tie_word_embeddings=True)
COHERE = dict(num_attention_heads=2, num_key_value_heads=1, intermediate_size=32, num_hidden_layers=4, rms_norm_eps=OMIT,
              layer_norm_eps=1e-5, sliding_window=16, logit_scale=0.25, tie_word_embeddings=True)
OLMOE = dict(num_key_value_heads=OMIT, intermediate_size=16, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False,
             clip_qkv=1.0, tie_word_embeddings=False)
SMOL = dict(num_hidden_layers=4, intermediate_size=48, no_rope_layers=[1, 0, 1, 0], tie_word_embeddings=True)
STARCODER = dict(rms_norm_eps=OMIT, norm_epsilon=1e-5, use_bias=True, sliding_window=16, hidden_act="gelu_pytorch_tanh",
                 tie_word_embeddings=True)
NEOX = dict(num_attention_heads=2, num_key_value_heads=OMIT, rms_norm_eps=OMIT, layer_norm_eps=1e-5, hidden_act="gelu",
            rope_parameters=turned(0.25))
GPT2 = dict(hidden_size=OMIT, intermediate_size=OMIT, num_hidden_layers=OMIT, num_attention_heads=OMIT, num_key_value_heads=OMIT,
            max_position_embeddings=OMIT, rms_norm_eps=OMIT, n_embd=32, n_layer=2, n_head=4, n_positions=512,
            tie_word_embeddings=True)

MODELS = {
    "llama-yarn": ("llama", dict(rope_parameters=yarn())),
    "llama-linear": ("llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "llama-bias": ("llama", dict(attention_bias=True, mlp_bias=True, head_dim=16, tie_word_embeddings=True)),
    "mistral": ("mistral", dict(sliding_window=16, head_dim=16)),
    "qwen2-window": ("qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    "qwen3_moe": ("qwen3_moe", dict(num_hidden_layers=3, head_dim=32, num_experts=8, num_experts_per_tok=3,
                                    moe_intermediate_size=32, norm_topk_prob=True, mlp_only_layers=[1])),
    "qwen3_moe-plain": ("qwen3_moe", dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                          norm_topk_prob=False, attention_bias=True)),
    "deepseek_v2": ("deepseek_v2", dict(MLA, q_lora_rank=32, topk_method="group_limited_greedy", n_group=4, topk_group=2)),
    "deepseek_v2-lite": ("deepseek_v2", dict(MLA, q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1,
                                             rope_parameters=yarn(mscale=0.707, mscale_all_dim=0.707))),
    "deepseek_v3-yarn": ("deepseek_v3", dict(MLA, q_lora_rank=None, n_group=4, topk_group=2, norm_topk_prob=True,
                                             rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0))),
    "gemma2": ("gemma2", dict(num_hidden_layers=4, initializer_range=0.1, head_dim=16, query_pre_attn_scalar=24, sliding_window=16,
                              attn_logit_softcapping=20.0, final_logit_softcapping=10.0, tie_word_embeddings=True)),
    "gemma3_text": ("gemma3_text", dict(num_hidden_layers=4, initializer_range=0.1, head_dim=16, query_pre_attn_scalar=24, sliding_window=16,
                                        layer_types=["sliding_attention"] * 3 + ["full_attention"],
                                        rope_parameters={
                                            "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                                            "sliding_attention": dict(rope_type="default", rope_theta=10000.0)},
                                        tie_word_embeddings=True)),
    "phi3": ("phi3", dict(sliding_window=16, resid_pdrop=0.0, embd_pdrop=0.0)),
    "phi3-longrope": ("phi3", dict(original_max_position_embeddings=32, partial_rotary_factor=0.5, num_attention_heads=1,
                                   num_key_value_heads=1, rope_parameters=dict(
                                       rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32,
                                       partial_rotary_factor=0.5,
                                       short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
                                       long_factor=[1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0]))),
    "olmo2": ("olmo2", dict()),
    "granite": ("granite", dict(embedding_multiplier=6.0, attention_multiplier=0.11, residual_multiplier=0.4,
                                logits_scaling=3.0)),
    "gpt_oss": ("gpt_oss", dict(num_hidden_layers=4, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
                                rope_parameters=yarn(beta_fast=32.0, beta_slow=1.0, truncate=False))),
    "glm4_moe": ("glm4_moe", GLM),
    "cohere2": ("cohere2", COHERE),
    "olmoe": ("olmoe", OLMOE),
    "smollm3": ("smollm3", SMOL),
    "starcoder2": ("starcoder2", STARCODER),
    "gpt_neox": ("gpt_neox", NEOX),
    "gpt_oss-mxfp4": ("gpt_oss", dict(head_dim=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
                                      rope_parameters=yarn(beta_fast=32.0, beta_slow=1.0, truncate=False))),
    "deepseek_v3-fp8": ("deepseek_v3", dict(MLA, q_lora_rank=32, n_group=2, topk_group=1, norm_topk_prob=True)),
}

VARIANTS = {
    "glm4_moe-plain": ("glm4_moe", dict(GLM, attention_bias=False, use_qk_norm=False, n_group=1, topk_group=1, head_dim=OMIT,
                                        n_shared_experts=1, first_k_dense_replace=0, norm_topk_prob=False,
                                        tie_word_embeddings=False)),
    "glm4_moe-yarn": ("glm4_moe", dict(GLM, use_qk_norm=False, topk_group=1, num_experts_per_tok=2, rope_parameters=yarn(partial_rotary_factor=0.5))),
    "glm4_moe-full": ("glm4_moe", dict(GLM, num_hidden_layers=3, hidden_act="gelu", rope_parameters=turned(1.0))),
    "glm4_moe-dense": ("glm4_moe", dict(GLM, first_k_dense_replace=2, num_key_value_heads=1, rope_parameters=turned(0.75))),
    "glm4_moe-given": ("glm4_moe", dict(GLM_SIZES, rms_norm_eps=OMIT, tie_word_embeddings=OMIT, rope_theta=500000.0,
                                        use_qk_norm=True)),
    "cohere2-bias": ("cohere2", dict(COHERE, attention_bias=True, num_key_value_heads=2, logit_scale=1.0, hidden_act="gelu",
                                     tie_word_embeddings=False, rope_parameters=yarn())),
    "cohere2-full": ("cohere2", dict(COHERE, layer_types=["full_attention"] * 4)),
    "cohere2-sliding": ("cohere2", dict(COHERE, layer_types=["sliding_attention"] * 4, num_attention_heads=4,
                                        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
    "cohere2-given": ("cohere2", dict(COHERE, num_key_value_heads=OMIT, layer_norm_eps=OMIT, tie_word_embeddings=OMIT,
                                      logit_scale=OMIT, rope_theta=50000, sliding_window_pattern=2, layer_types=OMIT)),
    "olmoe-plain": ("olmoe", dict(OLMOE, clip_qkv=None, norm_topk_prob=True, num_key_value_heads=2, attention_bias=True,
                                  num_experts=8, num_experts_per_tok=3, tie_word_embeddings=False)),
    "olmoe-all": ("olmoe", dict(OLMOE, clip_qkv=0.5, num_experts_per_tok=4, hidden_act="gelu", rope_parameters=yarn())),
    "olmoe-given": ("olmoe", dict(OLMOE, clip_qkv=None, norm_topk_prob=OMIT, rms_norm_eps=OMIT, tie_word_embeddings=OMIT,
                                  rope_theta=20000.0)),
    "smollm3-bias": ("smollm3", dict(SMOL, num_hidden_layers=5, no_rope_layers=None, attention_bias=True, mlp_bias=True,
                                     num_key_value_heads=1, tie_word_embeddings=False)),
    "smollm3-window": ("smollm3", dict(SMOL, no_rope_layers=None, no_rope_layer_interval=2, use_sliding_window=True,
                                       sliding_window=16, head_dim=16)),
    "smollm3-types": ("smollm3", dict(SMOL, no_rope_layers=[1, 1, 0, 0, 1], use_sliding_window=True, sliding_window=16,
                                      layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters=yarn())),
    "smollm3-unused-window": ("smollm3", dict(SMOL, use_sliding_window=False, sliding_window=16)),
    "smollm3-masked": ("smollm3", dict(SMOL, use_sliding_window=False, sliding_window=16,
                                       layer_types=["sliding_attention", "full_attention"] * 2)),
    "smollm3-given": ("smollm3", dict(SMOL, no_rope_layers=OMIT, no_rope_layer_interval=3, num_key_value_heads=OMIT,
                                      rms_norm_eps=OMIT, tie_word_embeddings=OMIT)),
    "starcoder2-plain": ("starcoder2", dict(STARCODER, use_bias=False, sliding_window=None, hidden_act="gelu", head_dim=16,
                                            num_key_value_heads=1, tie_word_embeddings=False)),
    "starcoder2-silu": ("starcoder2", dict(STARCODER, hidden_act="silu", num_key_value_heads=4, norm_epsilon=1e-3,
                                           rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "starcoder2-given": ("starcoder2", dict(STARCODER, use_bias=OMIT, norm_epsilon=OMIT, hidden_act=OMIT, rope_theta=100000,
                                            tie_word_embeddings=OMIT)),
    "gpt_neox-serial": ("gpt_neox", dict(NEOX, use_parallel_residual=False)),
    "gpt_neox-plain": ("gpt_neox", dict(NEOX, attention_bias=False, tie_word_embeddings=True, rope_parameters=turned(1.0),
                                        hidden_act="relu", num_attention_heads=4)),
    "gpt_neox-yarn": ("gpt_neox", dict(NEOX, hidden_act="gelu_new", rope_parameters=yarn(partial_rotary_factor=0.5))),
    "gpt_neox-given": ("gpt_neox", dict(NEOX, rope_parameters=OMIT, rotary_pct=0.5, rotary_emb_base=5000, hidden_act=OMIT,
                                        layer_norm_eps=OMIT, tie_word_embeddings=OMIT)),
    "gpt_neox-scaled-given": ("gpt_neox", dict(NEOX, rope_parameters=OMIT, rotary_emb_base=20000, hidden_act="gelu_fast",
                                               rope_scaling=dict(type="linear", factor=2.0), use_parallel_residual=False)),
    "llama-dynamic": ("llama", dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0))),
    "llama-partial": ("llama", dict(rope_parameters=turned(0.5), hidden_act="gelu", num_key_value_heads=1)),
    "llama-given": ("llama", dict(num_key_value_heads=OMIT, rms_norm_eps=OMIT, tie_word_embeddings=OMIT, rope_theta=500000.0)),
    "mistral-given": ("mistral", dict(rope_theta=1e6, sliding_window=None, rms_norm_eps=OMIT, tie_word_embeddings=True)),
    "mixtral-window": ("mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=16, head_dim=16,
                                       intermediate_size=32, tie_word_embeddings=True)),
    "qwen2-types": ("qwen2", dict(use_sliding_window=True, sliding_window=16, layer_types=["sliding_attention", "full_attention"],
                                  tie_word_embeddings=True)),
    "qwen3-bias": ("qwen3", dict(attention_bias=True, head_dim=16, use_sliding_window=True, sliding_window=16,
                                 max_window_layers=1, tie_word_embeddings=True)),
    "qwen3_moe-window": ("qwen3_moe", dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                           decoder_sparse_step=2, use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    "gemma2-plain": ("gemma2", dict(num_hidden_layers=3, initializer_range=0.1, head_dim=8, query_pre_attn_scalar=8,
                                    sliding_window=16, attn_logit_softcapping=None, final_logit_softcapping=None,
                                    attention_bias=True, tie_word_embeddings=True)),
    "gemma3_text-capped": ("gemma3_text", dict(num_hidden_layers=4, initializer_range=0.1, head_dim=16, query_pre_attn_scalar=16,
                                               sliding_window=16, attn_logit_softcapping=20.0, final_logit_softcapping=10.0,
                                               attention_bias=True, tie_word_embeddings=True)),
    "olmo2-bias": ("olmo2", dict(attention_bias=True, num_key_value_heads=4, tie_word_embeddings=True)),
    "granite-bias": ("granite", dict(attention_bias=True, mlp_bias=True, attention_multiplier=0.2, logits_scaling=0.5,
                                     tie_word_embeddings=True)),
    "phi3-partial": ("phi3", dict(sliding_window=None, resid_pdrop=0.0, embd_pdrop=0.0, num_attention_heads=2,
                                  num_key_value_heads=2, rope_parameters=turned(0.75), tie_word_embeddings=True)),
    "gpt2-scaled": ("gpt2", dict(GPT2, scale_attn_by_inverse_layer_idx=True, n_inner=48, activation_function="gelu")),
    "gpt2-unscaled": ("gpt2", dict(GPT2, scale_attn_weights=False, activation_function="relu", tie_word_embeddings=False)),
    "deepseek_v2-bias": ("deepseek_v2", dict(MLA, q_lora_rank=32, topk_method="greedy", n_group=1, topk_group=1,
                                             attention_bias=True, norm_topk_prob=False, first_k_dense_replace=0)),
    "deepseek_v3-plain": ("deepseek_v3", dict(MLA, q_lora_rank=32, n_group=1, topk_group=1, norm_topk_prob=False,
                                              rope_interleave=False, attention_bias=True, n_shared_experts=1)),
}
