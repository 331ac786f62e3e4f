"""tensor2tensor's flags and hparams without effect here: their defaults, and what to use instead.

A flag that changes no result is a warning. Any other one is accepted while it holds T2T's default;
another value would change what T2T computes, or where: refused.
The hparams are those of T2T's Transformer sets, of 1.15.7, and of 1.4 on for what that has no more.
"""

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import parse_like, types_of

# What to do instead, and below it the flags, each with T2T's default, or the values that may stand;
# without "=" any may.
_FLAGS = """
this program does not use it
  tmp_dir decoder_command gpu_order= worker_gpu_memory_fraction enable_graph_rewriter=true|false
  eval_timeout_mins eval_throttle_seconds eval_early_stopping_metric_minimize=true|false
  cloud_mlengine=false cloud_mlengine_master_type= job-dir= timit_paths= parsing_path=
  keep_timestamp=false hparams_range= autotune_objective= autotune_maximize=true|false
  autotune_max_trials autotune_parallel_trials profile=true|false dbgprofile=true|false
  tfdbg=true|false disable_grappler_optimizations=true|false log_device_placement=true|false
  locally_shard_to_cpu=true|false alsologtostderr=true|false logtostderr=true|false verbosity
  stderrthreshold
give it to t2t-trainer; the run remembers it
  model=transformer xla_compile=false xla_jit_level=-1
choose devices by --worker_gpu or TF_CONFIG; TPUs and parameter servers are not supported
  use_tpu=false use_tpu_estimator=false cloud_tpu_name tpu_num_shards tpu_job_name
  tpu_infeed_sleep_secs iterations_per_loop optionally_use_dist_strat=true|false master= ps_gpu=0
  ps_job ps_replicas=0 sync=false worker_job worker_id=0 worker_replicas=1 std_server_protocol
set the environment variables TF_NUM_INTEROP_THREADS and TF_NUM_INTRAOP_THREADS instead
  inter_op_parallelism_threads intra_op_parallelism_threads
decode with t2t-decoder and score with t2t-bleu
  eval_run_autoregressive=true|false decode_hparams decode_from_file decode_to_file
  decode_reference decode_in_memory=true|false
t2t-exporter writes a SavedModel of a run
  export_as_tfhub=false export_saved_model=false export_saved_model_api_version
  use_guarantee_const_getter=true|false
one run of t2t-datagen makes all files, on all cores, or on a cluster with --runner
  task_id=-1 task_id_start=-1 task_id_end=-1
set --hparams=activation_dtype=float16 instead
  gpu_automatic_mixed_precision=false
"""
# What T2T's programs note in hparams.json about the run itself; flags say these things here.
RUN = frozenset(
    "data_dir model_dir schedule eval_steps eval_freq_in_steps eval_timeout_mins "
    "std_server_protocol warm_start_from warm_start_from_second problem tpu_config mode".split()
)
# An hparam, and what the paper and other libraries call it.
_ELSEWHERE = {
    "hidden_size": "d_model embed_dim embedding_dim hidden_dim",
    "filter_size": "dff d_ff ff_dim ffn_dim intermediate_dim intermediate_size dim_feedforward",
    "num_hidden_layers": "num_layers n_layers",
    "num_heads": "n_heads nhead num_attention_heads",
    "layer_prepostprocess_dropout": "dropout dropout_rate p_drop",
    "max_length": "max_seq_len max_sequence_length sequence_length",
    "layer_preprocess_sequence=n,layer_postprocess_sequence=da": "normalize_first norm_first",
    "inputs_vocab_size, targets_vocab_size of MODEL.from_hparams()": "vocab_size vocabulary_size",
}
# What to do instead, and below it the hparams, each with T2T's default, or the values that T2T's
# own sets have, or none where T2T's Transformer lacks the hparam too.
_HPARAMS = """
t2t_repro does not implement it
  moe_hidden_sizes='2048' moe_num_experts=16|64 moe_k=2 moe_loss_coef=0.001|0.01
  moe_overhead_train=1.0 moe_overhead_eval=2.0 parameter_attention_key_channels=0
  parameter_attention_value_channels=0 ffn_layer='dense_relu_dense'|'conv_hidden_relu'
  scheduled_sampling_prob=0.0 scheduled_sampling_method='parallel'
  scheduled_sampling_warmup_steps=50000 scheduled_sampling_gold_mixin_prob=0.5
  scheduled_sampling_num_passes=1 scheduled_sampling_warmup_schedule='exp'
  multiproblem_fixed_train_length=-1 multiproblem_label_weight=0.5
  multiproblem_max_input_length=-1 multiproblem_max_target_length=-1
  multiproblem_mixing_schedule='constant'|'pretrain' multiproblem_per_task_threshold=''
  multiproblem_reweight_label_loss=False multiproblem_schedule_max_examples=10000000.0
  multiproblem_schedule_threshold=0.5 multiproblem_target_eval_only=False
  multiproblem_vocab_size=-1|65536 nbr_decoder_problems=1 overload_eval_metric_name=''
  split_targets_chunk_length=0 split_targets_max_chunks=100 split_targets_strided_training=False
  split_to_length=0 unconditional= prepend_mode='none' causal_decoder_self_attention=True
  beta= bottleneck_kind= decay= ema= epsilon= gating_type= noise_dev= num_blocks= num_residuals=
  random_top_k= residual_centroids= soft_em= use_scales= z_size=
  memory_type= num_memory_items= recurrent_memory_batch_size=
  area_key_mode='none' area_value_mode='none' max_area_height=1 max_area_width=1
  memory_height=1 num_area_layers=0 hard_attention_k=0 gumbel_noise_weight=0.0
  proximity_bias=False expected_attention_loss_type= expected_attention_loss_multiplier=
  compress_steps=0 conv_first_kernel=3 kernel_width=1 num_sampled_classes=0
  pretrained_model_dir='' video_num_input_frames=1 video_num_target_frames=1
  factored_logits=False use_pad_remover=True pad_batch=False grad_noise_scale=0.0
  weight_noise=0.0 summarize_grads=False summarize_vars=False
  tpu_enable_host_call=False mlperf_mode=False use_custom_ops=True
to change a part of the Transformer, write a model of your own
  bottom={} loss={} name={} top={} weights_fn={} modality={}
decode with t2t-decoder, which samples with --decode_hparams=sampling_method=random
  sampling_method='argmax' sampling_temp=1.0 sampling_keep_top_k=-1 num_samples=10
  eval_run_autoregressive=False force_full_predict=False
--worker_gpu chooses the devices
  daisy_chain_variables=True no_data_parallelism=False
set the hparam pos to "timing", "emb" or "none" instead
  position_features=''
set optimizer to adam, true_adam, adam_w, multistep_adam or adafactor
  optimizer_momentum_momentum=0.9 optimizer_momentum_nesterov=False optimizer_zero_grads=False
set activation_dtype to bfloat16 or float16: the weights stay float32
  weight_dtype='float32' gpu_automatic_mixed_precision=False
  mixed_precision_optimizer_loss_scaler='exponential'
  mixed_precision_optimizer_init_loss_scale=32768
t2t-datagen packs the files if the problem has a packed_length
  pack_dataset=False
"""
# What T2T 1.4 to 1.14 had and 1.15 has no more, likewise.
_OLD_HPARAMS = """
t2t_repro does not implement it
  input_modalities='default' target_modality='default' symbol_modality_skip_top=False
  problem_choice='adaptive' multiproblem_class_loss_multiplier=0.0
  tpu_batch_size_per_shard=24 use_tpu=False
"""

# T2T's programs that read a run, and its flags that must then say what the run says.
READ_A_RUN = frozenset("t2t-decoder t2t-eval t2t-exporter t2t-translate-all".split())
OF_THE_RUN = ("problem", "hparams_set", "hparams", "model")


def _entries(table: str) -> Iterator[tuple[str, str, str, str]]:
    """Yields the name, "=" or "", the value, and what to use instead, of each entry."""
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            instead = line
        else:
            for entry in line.split():
                yield *entry.partition("="), instead


def _values(table: str) -> dict[str, tuple[tuple[Any, ...], str]]:
    return {
        name: (tuple(ast.literal_eval(each) for each in values.split("|") if each), instead)
        for name, _, values, instead in _entries(table)
    }


# {flag: (what may stand, with | between, or None: anything; what to do instead)}
FLAGS = {
    flag: (values if is_held else None, instead)
    for flag, is_held, values, instead in _entries(_FLAGS)
}
# {name: (values that are accepted, what to do instead of another)}
T2T_ONLY = _values(_HPARAMS) | _values(_OLD_HPARAMS)
BEFORE_1_15 = frozenset(_values(_OLD_HPARAMS))

_LIMITS = ("max_input_seq_length", "max_target_seq_length")


def from_t2t_value(field: dataclasses.Field, value: Any) -> Any:
    """Returns one of our hparams' values from T2T's forms of it.

    T2T also allows 1 and 0 for True and False, None for off, and negative lengths for no limit.
    """
    if isinstance(field.default, bool) and type(value) is int and value in (0, 1):
        return bool(value)
    number, *others = types_of(field)
    if value is None and number in (int, float) and not others:
        return number(0)
    if field.name in _LIMITS and type(value) is int and value < 0:
        return 0
    return value


def default(name: str) -> Any:
    """Returns T2T's default of a foreign hparam; None where T2T's Transformer lacks it too."""
    values, _ = T2T_ONLY.get(name, ((), ""))
    return values[0] if values else None


def parse(name: str, text: str) -> Any:
    """Reads the value of an override of a foreign hparam by the kind of its default.

    Raises:
        UserError: if it is of another kind.
    """
    return parse_like(default(name), name, text)


def meant(name: str) -> str:
    """Returns " Did you mean hidden_size?" of another library's name of an hparam, or ""."""
    here = next((ours for ours, theirs in _ELSEWHERE.items() if name in theirs.split()), "")
    return f" Did you mean {here}?" if here else ""


def check(values: Mapping[str, Any], own: Iterable[str]) -> None:
    """Accepts foreign hparams that hold T2T's defaults.

    Args:
        values: {hparam: its value}.
        own: the names of ours.

    Raises:
        UserError: naming all others, as `complaints`.
    """
    if wrong := complaints(values, own):
        raise UserError(" ".join(wrong.values()))


def complaints(values: Mapping[str, Any], own: Iterable[str]) -> dict[str, str]:
    """Returns {name: what is wrong} of those that hold another value than T2T's default.

    It says what to use instead; of a name that T2T's Transformer lacks too, the nearest of ours.
    """
    found = {}
    for name, value in values.items():
        accepted, instead = T2T_ONLY.get(name, ((), ""))
        if name in RUN or value in accepted:
            continue
        if instead:
            wanted = " or ".join(f"{name}={v!r}" for v in accepted) or f"no {name}"
            found[name] = (
                f"Expected {wanted} (tensor2tensor's default), because this hparam has no "
                f"counterpart in t2t_repro. Received: {name}={value!r}. Remove it: {instead}."
            )
        else:
            hint = meant(name)
            text = f"Unknown hparam. Received: {name!r}.{hint}"
            found[name] = text if hint else str(unknown("hparam", name, own))
    return found
