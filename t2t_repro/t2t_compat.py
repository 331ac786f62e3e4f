"""tensor2tensor's flags and hparams that mean nothing here: their defaults, what to do instead.

One is accepted while it holds T2T's default; it then means nothing here. Any other value would
change what T2T computes, or would seem to: refused, except of a few flags that change no result.
The hparams are those of T2T's Transformer sets, of 1.15.7, and of 1.4 on for what that has no more.
"""

import ast
import dataclasses
from collections.abc import Iterable
from typing import Any

from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import parse_like

# {what to do instead: the flags, each with T2T's default, or the values that may stand; without "="
# any may}
_FLAGS = {
    "no raw files are read here": "tmp_dir",
    "this process decodes with every checkpoint": "decoder_command",
    "t2t-trainer takes it, and a run says of which model it is": "model=transformer",
    "there is no TPU support; devices are chosen by --worker_gpu": (
        "use_tpu=false use_tpu_estimator=false cloud_tpu_name= tpu_num_shards=8 tpu_job_name= "
        "tpu_infeed_sleep_secs= iterations_per_loop=100"
    ),
    "there is no Cloud ML Engine launcher": (
        "cloud_mlengine=false cloud_mlengine_master_type= job-dir="
    ),
    "there are no parameter servers; several devices or hosts run MirroredStrategy": (
        "master= ps_gpu=0 ps_job=/job:ps ps_replicas=0 sync=false worker_job=/job:localhost "
        "worker_id=0 worker_replicas=1 std_server_protocol=grpc"
    ),
    "the order is that of CUDA_VISIBLE_DEVICES": "gpu_order=",
    "memory grows as it is needed": "worker_gpu_memory_fraction=0.95",
    "TensorFlow 2 has none": "enable_graph_rewriter=false",
    "evaluation follows each checkpoint in the same process": (
        "eval_timeout_mins=240 eval_throttle_seconds"
    ),
    "it is known of each metric": "eval_early_stopping_metric_minimize=true|false",
    "set TF_NUM_INTEROP_THREADS": "inter_op_parallelism_threads",
    "set TF_NUM_INTRAOP_THREADS": "intra_op_parallelism_threads",
    "decode with t2t-decoder and score with t2t-bleu": "eval_run_autoregressive=false",
    "t2t-exporter writes a SavedModel of a run": (
        "export_as_tfhub=false export_saved_model=false export_saved_model_api_version=1 "
        "use_guarantee_const_getter=false"
    ),
    "one t2t-datagen makes all files, with all cores, or on a cluster by --runner": (
        "task_id=-1 task_id_start=-1 task_id_end=-1"
    ),
    "raw files lie in --tmp_dir": "timit_paths= parsing_path=",
    "t2t-decoder takes it; a training decodes for --eval_bleu_sentences alone": (
        "decode_hparams= decode_from_file= decode_to_file= decode_reference="
    ),
    "call t2t_repro.decoding.translate from Python": "decode_in_memory=false",
    "a file has the time at which it was written": "keep_timestamp=false",
    "there is no hyperparameter search": (
        "hparams_range= autotune_objective= autotune_maximize=true autotune_max_trials=10 "
        "autotune_parallel_trials=1"
    ),
    "use TensorBoard's profiler": "profile=false dbgprofile=false",
    "t2t-trainer takes it, and a run keeps it": "xla_compile=false",
    "t2t-trainer --xla_compile compiles whole steps": "xla_jit_level=-1",
    "set --hparams=activation_dtype=float16": "gpu_automatic_mixed_precision=false",
    "TensorFlow 2 optimises by itself": "disable_grappler_optimizations=false",
    "--worker_gpu chooses it": "optionally_use_dist_strat=false",
    "TensorFlow 2 has no tfdbg session": "tfdbg=false",
    "use tf.debugging.set_log_device_placement": "log_device_placement=false",
}
# {flag: (what may stand, with | between, or None: anything; what to do instead)}
FLAGS: dict[str, tuple[str | None, str]] = {
    flag: (rest if is_held else None, why)
    for why, flags in _FLAGS.items()
    for flag, is_held, rest in (each.partition("=") for each in flags.split())
}

# T2T's programs that read a run, and its flags that must then say what the run says.
READ_A_RUN = frozenset("t2t-decoder t2t-eval t2t-exporter t2t-translate-all".split())
OF_THE_RUN = ("problem", "hparams_set", "hparams", "model")

# {hparam that a user's set adds to those of T2T: the set}, as far as the sets were made.
ADDED: dict[str, str] = {}

# What T2T's programs note in hparams.json about the run itself; flags say these things here.
RUN = frozenset(
    "data_dir model_dir schedule eval_steps eval_freq_in_steps eval_timeout_mins "
    "std_server_protocol warm_start_from warm_start_from_second problem tpu_config mode".split()
)

_VARIABLES = "give the part of the Transformer that you want to change as code of your own"
_MULTI = "there are no multi-problem runs"
_HARDWARE = "there is no TPU support"

# {why another value is refused: the hparams, each with T2T's default, or the values that T2T's own
# sets have, or none where T2T's Transformer lacks the hparam too}
_FOREIGN = {
    "there are no mixtures of experts; the feed-forward sublayer has filter_size": (
        "moe_hidden_sizes='2048' moe_num_experts=16|64 moe_k=2 moe_loss_coef=0.001|0.01 "
        "moe_overhead_train=1.0 moe_overhead_eval=2.0 "
        "ffn_layer='dense_relu_dense'|'conv_hidden_relu' parameter_attention_key_channels=0 "
        "parameter_attention_value_channels=0"
    ),
    "t2t-decoder draws samples of any model: --decode_hparams=sampling_method=random": (
        "sampling_method='argmax' sampling_temp=1.0 sampling_keep_top_k=-1 num_samples=10"
    ),
    "there is no scheduled sampling": (
        "scheduled_sampling_prob=0.0 scheduled_sampling_method='parallel' "
        "scheduled_sampling_warmup_steps=50000 scheduled_sampling_gold_mixin_prob=0.5 "
        "scheduled_sampling_num_passes=1 scheduled_sampling_warmup_schedule='exp'"
    ),
    _VARIABLES: ("bottom={} loss={} name={} top={} weights_fn={} modality={}"),
    _MULTI: (
        "multiproblem_fixed_train_length=-1 multiproblem_label_weight=0.5 "
        "multiproblem_max_input_length=-1 multiproblem_max_target_length=-1 "
        "multiproblem_mixing_schedule='constant'|'pretrain' "
        "multiproblem_per_task_threshold='' multiproblem_reweight_label_loss=False "
        "multiproblem_schedule_max_examples=10000000.0 multiproblem_schedule_threshold=0.5 "
        "multiproblem_target_eval_only=False multiproblem_vocab_size=-1|65536 "
        "nbr_decoder_problems=1 overload_eval_metric_name=''"
    ),
    "there are no language models over chunks of a text": (
        "split_targets_chunk_length=0 split_targets_max_chunks=100 "
        "split_targets_strided_training=False split_to_length=0 unconditional= "
        "prepend_mode='none' causal_decoder_self_attention=True"
    ),
    "there are no vector-quantised bottlenecks": (
        "beta= bottleneck_kind= decay= ema= epsilon= gating_type= noise_dev= num_blocks= "
        "num_residuals= random_top_k= residual_centroids= soft_em= use_scales= z_size="
    ),
    "there are no recurrent memories": (
        "memory_type= num_memory_items= recurrent_memory_batch_size="
    ),
    "there is no area attention": (
        "area_key_mode='none' area_value_mode='none' max_area_height=1 max_area_width=1 "
        "memory_height=1 num_area_layers=0"
    ),
    "TensorFlow 2 places variables itself; --worker_gpu chooses the devices": (
        "daisy_chain_variables=True no_data_parallelism=False"
    ),
    _HARDWARE: ("tpu_enable_host_call=False mlperf_mode=False use_custom_ops=True"),
    "TensorBoard shows the run; metrics.jsonl has its numbers": (
        "summarize_grads=False summarize_vars=False"
    ),
    "T2T's Transformer never reads it": (
        "compress_steps=0 conv_first_kernel=3 kernel_width=1 num_sampled_classes=0 "
        "pretrained_model_dir='' video_num_input_frames=1 video_num_target_frames=1"
    ),
    "self_attention_type says what there is": (
        "hard_attention_k=0 gumbel_noise_weight=0.0 proximity_bias=False"
    ),
    'pos is "timing", "emb" or "none"': ("position_features=''"),
    "padding is left out of the work by itself": ("use_pad_remover=True pad_batch=False"),
    "set optimizer to one of those of HParams": (
        "optimizer_momentum_momentum=0.9 optimizer_momentum_nesterov=False "
        "optimizer_zero_grads=False"
    ),
    "set activation_dtype to bfloat16 or float16: the weights stay float32": (
        "weight_dtype='float32' gpu_automatic_mixed_precision=False "
        "mixed_precision_optimizer_loss_scaler='exponential' "
        "mixed_precision_optimizer_init_loss_scale=32768"
    ),
    "set clip_grad_norm, weight_decay or a dropout": ("grad_noise_scale=0.0 weight_noise=0.0"),
    "decode with t2t-decoder and score with t2t-bleu": (
        "eval_run_autoregressive=False force_full_predict=False"
    ),
    "the loss needs no such saving": ("factored_logits=False"),
    "t2t-datagen packs the files where the problem has a packed_length": ("pack_dataset=False"),
    "there are no losses on attention weights": (
        "expected_attention_loss_type= expected_attention_loss_multiplier="
    ),
}
# What T2T 1.4 to 1.14 had and 1.15 has no more, likewise.
_OLD = {
    _VARIABLES: (
        "input_modalities='default' target_modality='default' symbol_modality_skip_top=False"
    ),
    _MULTI: ("problem_choice='adaptive' multiproblem_class_loss_multiplier=0.0"),
    _HARDWARE: ("tpu_batch_size_per_shard=24 use_tpu=False"),
}


def _values(groups: dict[str, str]) -> dict[str, tuple[tuple[Any, ...], str]]:
    return {
        name: (tuple(ast.literal_eval(each) for each in values.split("|") if each), why)
        for why, hparams in groups.items()
        for name, _, values in (each.partition("=") for each in hparams.split())
    }


BEFORE_1_15 = frozenset(_values(_OLD))
# {name: (values that are accepted, what to do instead of another)}
FOREIGN = _values(_FOREIGN) | _values(_OLD)

_OFF = {
    "clip_grad_norm": 0.0,
    "optimizer_adafactor_clipping_threshold": 0.0,
    "optimizer_multistep_accumulate_steps": 0,
}
_LIMITS = ("max_input_seq_length", "max_target_seq_length")


def in_our_words(field: dataclasses.Field, value: Any) -> Any:
    """Returns the value of one of our hparams, of which T2T, which checks none, has other forms.

    They are 1 and 0 for True and False, None for what is off, and negative limits of lengths for
    none.
    """
    if isinstance(field.default, bool) and type(value) is int and value in (0, 1):
        return bool(value)
    if field.name in _OFF and value is None:
        return _OFF[field.name]
    if field.name in _LIMITS and type(value) is int and value < 0:
        return 0
    return value


def default(name: str) -> Any:
    """Returns T2T's default of a foreign hparam; None where T2T's Transformer lacks it too."""
    values, _ = FOREIGN.get(name, ((), ""))
    return values[0] if values else None


def parse(name: str, text: str) -> Any:
    """Reads the value of an override of a foreign hparam by the kind of its default.

    Raises:
        UserError: if it is of another kind.
    """
    return parse_like(default(name), name, text)


def check(name: str, value: Any, own: Iterable[str]) -> None:
    """Accepts a foreign hparam that holds T2T's default.

    Args:
        name: the hparam.
        value: what it holds.
        own: the names of ours.

    Raises:
        UserError: on another value: what it is, and what to write instead; on a name that T2T's
            Transformer does not have either: the nearest names of ours.
    """
    if name in RUN:
        return
    if name not in FOREIGN:
        raise unknown("hparam", name, own)
    values, instead = FOREIGN[name]
    if value not in values:
        wanted = " or ".join(f"{name}={v!r}" for v in values) or f"no {name}"
        raise UserError(
            f"tensor2tensor's hparam {name} has no counterpart here: expected {wanted}, its "
            f"default. Received: {name}={value!r}. Leave it out: {instead}."
        )


def check_override(name: str, text: str, own: Iterable[str]) -> None:
    """Accepts an override, name=text, that gives a foreign hparam T2T's default.

    Raises:
        UserError: as `check`; on an hparam that a user's set adds, which nothing here reads.
    """
    if name in ADDED:
        raise UserError(
            f"hparam {name} has no effect: the hparams set {ADDED[name]} adds it, and nothing in "
            f"t2t_repro reads it. Received: {name}={text}. Leave it out."
        )
    check(name, parse(name, text), own)
