"""Implementations of the operators.

Every implementation of an operator has the signature given here. Shapes: T tokens, H heads, D head size, N
features. ``obj`` is the calling layer.

* ``silu_and_mul(obj, x)``, ``gelu_and_mul(obj, x)``: x [..., 2N] to [..., N]; ``obj.approximate`` of
  the latter is ``none`` or ``tanh``.
* ``rms_norm(obj, x, residual=None)``: x [..., N]; ``obj.weight`` [N], ``obj.variance_epsilon``. Gives y, or
  (y, x + residual) when there is a residual; both arguments may be overwritten then.
* ``rotary_embedding(obj, q, k, cos, sin, pos, rotary_interleaved=False, inplace=True)``: q [T, H, D] or
  [B, S, H, D], k alike or None; cos and sin [positions, D or half the rotated size]; pos of T integers. Gives
  (q, k), the same tensors when in place.
* ``attention_backend(use_mla, use_sparse)``: dotted name of an attention backend class.
* ``topk_softmax``, ``grouped_topk``, ``moe_align_block_size``, ``moe_sum``: the operators of these names in
  ``torch.ops._moe_C``, with the same arguments.
* ``invoke_fused_moe_triton_kernel``: the function of that name in vLLM.
* ``dynamic_per_token_quant_int8(x)``: x [..., N] to int8 [..., N] and scales fp32 [..., 1].
"""
