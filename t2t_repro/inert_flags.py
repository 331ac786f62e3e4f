"""T2T's flags that mean nothing here: accepted at rest, and otherwise refused with the reason."""

_NO_TPU = "there is no TPU support; devices are chosen by --worker_gpu"
_NO_CLOUD = "there is no Cloud ML Engine launcher"
_NO_SHARES = "one t2t-datagen makes all files, with all cores, or on a cluster by --runner"
_NO_SUCH_FILES = "raw files lie in --tmp_dir"
_NO_EXPORT = "t2t-exporter writes a SavedModel of a run"
_NO_TUNE = "there is no hyperparameter search"
_NO_PS = "there are no parameter servers; several devices or hosts run MirroredStrategy"
_NO_DECODING = "t2t-decoder takes it; a training decodes for --eval_bleu_sentences alone"
# {flag: (what it is at rest, why it is refused otherwise)}
INERT_FLAGS: dict[str, tuple[str, str]] = {
    "model": ("transformer", "t2t-trainer takes it, and a run says of which model it is"),
    "use_tpu": ("false", _NO_TPU),
    "use_tpu_estimator": ("false", _NO_TPU),
    "cloud_tpu_name": ("", _NO_TPU),
    "tpu_num_shards": ("8", _NO_TPU),
    "tpu_job_name": ("", _NO_TPU),
    "tpu_infeed_sleep_secs": ("", _NO_TPU),
    "iterations_per_loop": ("100", _NO_TPU),
    "cloud_mlengine": ("false", _NO_CLOUD),
    "cloud_mlengine_master_type": ("", _NO_CLOUD),
    "job-dir": ("", _NO_CLOUD),
    "master": ("", _NO_PS),
    "ps_gpu": ("0", _NO_PS),
    "ps_job": ("/job:ps", _NO_PS),
    "ps_replicas": ("0", _NO_PS),
    "sync": ("false", _NO_PS),
    "worker_job": ("/job:localhost", _NO_PS),
    "worker_id": ("0", _NO_PS),
    "worker_replicas": ("1", _NO_PS),
    "std_server_protocol": ("grpc", _NO_PS),
    "gpu_order": ("", "the order is that of CUDA_VISIBLE_DEVICES"),
    "worker_gpu_memory_fraction": ("0.95", "memory grows as it is needed"),
    "enable_graph_rewriter": ("false", "TensorFlow 2 has none"),
    "eval_timeout_mins": ("240", "evaluation follows each checkpoint in the same process"),
    "eval_run_autoregressive": ("false", "decode with t2t-decoder and score with t2t-bleu"),
    "export_saved_model": ("false", _NO_EXPORT),
    "export_saved_model_api_version": ("1", _NO_EXPORT),
    "use_guarantee_const_getter": ("false", _NO_EXPORT),
    "task_id": ("-1", _NO_SHARES),
    "task_id_start": ("-1", _NO_SHARES),
    "task_id_end": ("-1", _NO_SHARES),
    "timit_paths": ("", _NO_SUCH_FILES),
    "parsing_path": ("", _NO_SUCH_FILES),
    "decode_hparams": ("", _NO_DECODING),
    "decode_from_file": ("", _NO_DECODING),
    "decode_to_file": ("", _NO_DECODING),
    "decode_reference": ("", _NO_DECODING),
    "decode_in_memory": ("false", "call t2t_repro.decoding.translate from Python"),
    "keep_timestamp": ("false", "a file has the time at which it was written"),
    "hparams_range": ("", _NO_TUNE),
    "autotune_objective": ("", _NO_TUNE),
    "autotune_maximize": ("true", _NO_TUNE),
    "autotune_max_trials": ("10", _NO_TUNE),
    "autotune_parallel_trials": ("1", _NO_TUNE),
    "profile": ("false", "use TensorBoard's profiler"),
    "xla_compile": ("false", "t2t-trainer takes it, and a run keeps it"),
    "xla_jit_level": ("-1", "t2t-trainer --xla_compile compiles whole steps"),
    "gpu_automatic_mixed_precision": ("false", "set --hparams=activation_dtype=float16"),
    "disable_grappler_optimizations": ("false", "TensorFlow 2 optimises by itself"),
    "optionally_use_dist_strat": ("false", "--worker_gpu chooses it"),
    "dbgprofile": ("false", "use TensorBoard's profiler"),
    "tfdbg": ("false", "TensorFlow 2 has no tfdbg session"),
    "log_device_placement": ("false", "use tf.debugging.set_log_device_placement"),
}
