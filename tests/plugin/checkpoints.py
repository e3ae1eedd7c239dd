"""Tiny checkpoints with real random weights, and what Hugging Face transformers generates from them.

The weights are drawn once and saved, so every engine, whatever its parallel layout, reads the same numbers;
vLLM's dummy loader draws per shard and could not be compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOCABULARY = 512
NEW_TOKENS = 16
# One token, both sides of a 16-token block, and long enough for chunks, windows and cached prefixes.
PROMPT_LENGTHS = (1, 5, 16, 17, 40, 77, 100, 140)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)

_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 1,
    "tie_word_embeddings": False,
}
_QWEN_EXPERTS: dict[str, Any] = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
_LATENT_ATTENTION: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
# model name -> (configuration class, model class, changes to _COMMON)
_MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 32}),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {"head_dim": 32, **_QWEN_EXPERTS}),
    "qwen3_next": (
        "Qwen3NextConfig",
        "Qwen3NextForCausalLM",
        {
            "head_dim": 32,
            "num_hidden_layers": 4,
            "shared_expert_intermediate_size": 32,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_conv_kernel_dim": 4,
            "full_attention_interval": 4,
            "partial_rotary_factor": 0.25,
            **_QWEN_EXPERTS,
        },
    ),
    "deepseek_v2": (
        "DeepseekV2Config",
        "DeepseekV2ForCausalLM",
        {
            **_LATENT_ATTENTION,
            "q_lora_rank": None,
            "n_group": 1,
            "topk_group": 1,
            "topk_method": "greedy",
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": False,
        },
    ),
    "deepseek_v3": (
        "DeepseekV3Config",
        "DeepseekV3ForCausalLM",
        {
            **_LATENT_ATTENTION,
            "q_lora_rank": 48,
            "n_group": 2,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "routed_scaling_factor": 1.5,
            "norm_topk_prob": True,
        },
    ),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"head_dim": 16, "sliding_window": 24}),
    "gemma3": (
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {
            "head_dim": 32,
            "num_hidden_layers": 3,
            "sliding_window": 24,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "query_pre_attn_scalar": 32,
        },
    ),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
}
MODELS = tuple(_MODELS)


@dataclass(frozen=True)
class Reference:
    """A prompt as token ids, and the tokens transformers generates from it greedily in fp32."""

    prompt: tuple[int, ...]
    generated: tuple[int, ...]
    margin: float
    """Smallest distance between the best and the second-best logit on the way."""


def prompts(lengths: tuple[int, ...] = PROMPT_LENGTHS, seed: int = 7) -> list[list[int]]:
    """Random token ids of these lengths, special tokens left out."""
    draw = random.Random(seed)
    return [[draw.randrange(2, VOCABULARY) for _ in range(length)] for length in lengths]


def build(name: str, folder: Path, adjust: Callable[[Any], None] | None = None) -> Path:
    """Write the checkpoint ``name`` with its tokenizer into ``folder``.

    ``adjust`` may change the configuration before the model is made. The weights are wide enough for the
    best token to stand out, and every norm differs from one, so that a missing weight shows.
    """
    import torch
    import transformers

    config_class, model_class, changes = _MODELS[name]
    config = getattr(transformers, config_class)(**{**_COMMON, **changes})
    if adjust is not None:
        adjust(config)
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(config).float().eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                parameter.normal_(0, 0.12)
            elif "norm" in parameter_name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.endswith("e_score_correction_bias"):
                buffer.normal_(0, 0.1)
    model.generation_config = transformers.GenerationConfig(eos_token_id=0, pad_token_id=1)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    """Save a byte-level tokenizer of VOCABULARY tokens that can spell any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    words = ["red", "green", "blue", "cyan", "white", "black"]
    text = [f"{word} number {index}" for index, word in enumerate(words * 40)]
    tokenizer.train_from_iterator(text, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|pad|>")
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def references(folder: Path, batch: list[list[int]] | None = None) -> list[Reference]:
    """What transformers generates greedily, without a cache, from the saved checkpoint.

    Without ``batch``: for :func:`prompts`, remembered in the folder.
    """
    import torch
    import transformers

    remembered = folder / "references.json"
    if batch is None and remembered.exists():
        return [
            Reference(tuple(r["prompt"]), tuple(r["generated"]), r["margin"])
            for r in json.loads(remembered.read_text())
        ]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    for prompt in prompts() if batch is None else batch:
        ids, margin = torch.tensor([prompt]), float("inf")
        for _ in range(NEW_TOKENS):
            with torch.inference_mode():
                best = model(ids, use_cache=False).logits[0, -1].topk(2)
            margin = min(margin, (best.values[0] - best.values[1]).item())
            ids = torch.cat([ids, best.indices[:1][None]], dim=1)
        found.append(Reference(tuple(prompt), tuple(ids[0, len(prompt) :].tolist()), margin))
    if batch is None:
        remembered.write_text(json.dumps([vars(reference) for reference in found]))
    return found
