"""The tensor2tensor modules that a --t2t_usr_dir may import: their contents here, and what is
missing."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from t2t_repro import problem, registry
from t2t_repro.config import HParams
from t2t_repro.corpora import parallel, sources
from t2t_repro.errors import UserError
from t2t_repro.interop.mutable_hparams import MutableHParams
from t2t_repro.text import encoders
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.tokenizer import count_tokens
from t2t_repro.text.vocabulary_size import T2T_SIZE

Warn = Callable[[str], None]
_NO_GENERATE_DATA = (
    "t2t-datagen writes the files; yield samples from generate_samples, or encoded samples from "
    "generate_encoded_samples"
)

# Members of a T2T problem that nothing here calls, though T2T would: overriding them would have no
# effect on what is trained on.
_UNREAD_MEMBERS = frozenset(
    "generate_data multiprocess_generate num_generate_tasks prepare_to_generate hparams "
    "get_hparams get_feature_encoders example_reading_spec preprocess_example preprocess dataset "
    "decode_example input_fn make_estimator_input_fn serving_input_fn feature_info "
    "maybe_reverse_features maybe_copy_features maybe_reverse_and_copy filepattern data_filepaths "
    "training_filepaths dev_filepaths test_filepaths export_assets max_length decode_hooks "
    "eval_hooks eval_metric_fns all_metrics_fns".split()
)
# Properties that are accepted while they say what T2T's text problems say.
_FIXED_PROPERTIES = {
    "has_inputs": True,
    "batch_size_means_tokens": True,
    "skip_random_fraction_when_training": True,
    "use_train_shards_for_dev": False,
}


class Text2TextProblem(problem.Text2TextProblem):
    """Ours, with the methods that T2T's problems call on themselves."""

    has_inputs = True
    batch_size_means_tokens = True
    approx_vocab_size = T2T_SIZE  # said, as in T2T

    def get_or_create_vocab(
        self, data_dir: str, tmp_dir: str | None, force_get: bool = False
    ) -> encoders.TextEncoder:
        """Returns the encoder of both sides; makes its file first, unless `force_get`."""
        other = self.use_vocab_from_other_problem
        if isinstance(other, Text2TextProblem):
            return other.get_or_create_vocab(data_dir, tmp_dir, force_get)
        if not force_get:
            super().prepare_vocabulary(data_dir, tmp_dir or "")
        return super()._read_vocabulary(data_dir)

    def prepare_vocabulary(
        self, data_dir: str, tmp_dir: str, count: problem.Count = count_tokens
    ) -> None:
        """As in T2T, encoding samples or getting the vocabulary also makes it."""
        if _defined_by_user(type(self), "generate_encoded_samples"):
            return
        if _defined_by_user(type(self), "get_or_create_vocab"):
            self.get_or_create_vocab(data_dir, tmp_dir)
        else:
            super().prepare_vocabulary(data_dir, tmp_dir, count)

    @property
    def vocab_filenames(self) -> list[str]:
        names = [getattr(self, f"{side}_vocab_name", None) for side in ("source", "target")]
        if all(names) and _defined_by_user(type(self), "feature_encoders"):
            return [str(name) for name in names]
        return super().vocab_filenames

    def _read_vocabulary(self, data_dir: str) -> encoders.TextEncoder:
        return self.get_or_create_vocab(data_dir, None, force_get=True)


class TranslateProblem(Text2TextProblem, problem.TranslateProblem):
    """Ours, with the methods that T2T's problems call on themselves."""

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int | None:
        """Returns None: a user's `generate_samples` may read anything."""
        return None


class TranslateDistillProblem(  # type: ignore[misc]  # of which one may know less
    TranslateProblem, problem.TranslateDistillProblem
):
    """Ours, with the methods that T2T's problems call on themselves."""


class Metrics:
    """The names of metrics that evaluation computes."""

    ACC = "accuracy"
    ACC_TOP5 = "accuracy_top5"
    ACC_PER_SEQ = "accuracy_per_sequence"
    NEG_LOG_PERPLEXITY = "neg_log_perplexity"
    APPROX_BLEU = "approx_bleu_score"
    ROUGE_2_F = "rouge_2_fscore"
    ROUGE_L_F = "rouge_L_fscore"


def text2text_generate_encoded(
    sample_generator: Iterable[dict[str, Any]],
    vocab: encoders.TextEncoder,
    targets_vocab: encoders.TextEncoder | None = None,
    has_inputs: bool = True,
    inputs_prefix: str = "",
    targets_prefix: str = "",
) -> Iterator[dict[str, Any]]:
    """Yields the samples as ids, each side ended by 1."""
    sides = [("targets", targets_vocab or vocab, targets_prefix)]
    if has_inputs:
        sides.append(("inputs", vocab, inputs_prefix))
    for sample in sample_generator:
        ids = {
            name: [*encoder.encode(prefix + sample[name]), encoders.EOS_ID]
            for name, encoder, prefix in sides
        }
        yield {**sample, **ids}


def contents(warn: Warn) -> dict[str, dict[str, Any]]:
    """Returns {module of tensor2tensor: {name: its object here}}.

    Args:
        warn: gets a line for hparams and ranged sets that nothing reads.
    """
    identity = {name: _identity for name in ("native_to_unicode", "unicode_to_native")}
    return {
        "utils.registry": {
            "register_problem": _Register(_register_problem, warn),
            "register_base_problem": _Register(_register_problem, warn),
            "register_hparams": _Register(_register_hparams, warn),
            "register_ranged_hparams": _Register(_register_nothing, functools.cache(warn)),
            "hparams": _mutable,
            "problem": registry.get_problem,
            "list_hparams": lambda prefix="": _with_prefix(registry.list_hparams(), prefix),
            "list_problems": registry.list_problems,
            "list_base_problems": registry.list_problems,
            "default_name": lambda thing: registry.snake_case(thing.__name__),
        },
        "utils.metrics": {"Metrics": Metrics},
        "data_generators.problem": {
            "DatasetSplit": problem.Split,
            "SpaceID": problem.SpaceID,
            "Problem": problem.Problem,
        },
        "data_generators.text_problems": {
            "Text2TextProblem": Text2TextProblem,
            "VocabType": problem.VocabType,
            "text2text_txt_iterator": parallel.text2text_txt_iterator,
            "text2text_distill_iterator": parallel.text2text_distill_iterator,
            "text2text_txt_tab_iterator": parallel.text2text_txt_tab_iterator,
            "txt_line_iterator": parallel.txt_line_iterator,
            "text2text_generate_encoded": text2text_generate_encoded,
        },
        "data_generators.translate": {
            "TranslateProblem": TranslateProblem,
            "TranslateDistillProblem": TranslateDistillProblem,
            "compile_data": parallel.compile_data,
        },
        "data_generators.text_encoder": {
            "PAD": encoders.PAD,
            "EOS": encoders.EOS,
            "PAD_ID": 0,
            "EOS_ID": encoders.EOS_ID,
            "RESERVED_TOKENS": list(encoders.RESERVED_TOKENS),
            "NUM_RESERVED_TOKENS": encoders.NUM_RESERVED_TOKENS,
            "TextEncoder": encoders.TextEncoder,
            "ByteTextEncoder": encoders.ByteTextEncoder,
            "TokenTextEncoder": encoders.TokenTextEncoder,
            "SubwordTextEncoder": SubwordTextEncoder,
            **identity,
        },
        "data_generators.generator_utils": {
            "maybe_download": sources.maybe_download,
            "gunzip_file": sources.gunzip_file,
            "generate_lines_for_vocab": parallel.generate_lines_for_vocab,
            "get_or_generate_vocab": parallel.get_or_generate_vocab,
            "get_or_generate_vocab_inner": parallel.get_or_generate_vocab_inner,
        },
        "models.transformer": {},  # every hparam set; see `hparam_set`
        "layers.common_hparams": {"basic_params1": lambda: MutableHParams(HParams())},
    }


# What to do instead of using a name, by the name without "tensor2tensor."
INSTEAD = {
    "utils.registry.register_model": (
        "derive your model from t2t_repro's Transformer or SequenceModel, and register it with "
        "t2t_repro.registry.register_model"
    ),
    "utils.hparam": "start from an hparam set of tensor2tensor.models.transformer and change it",
    "layers.common_layers": "use the Keras layers of t2t_repro.layers",
    "layers.common_attention": "use the Keras layers of t2t_repro.layers",
    "data_generators.generator_utils.generate_files": _NO_GENERATE_DATA,
    "data_generators.generator_utils.generate_dataset_and_shuffle": _NO_GENERATE_DATA,
}


def hparam_set(name: str) -> Callable[[], MutableHParams] | None:
    """Returns the function of T2T's models/transformer.py that makes the set `name`, or None."""
    known = name.startswith("transformer_") and name in registry.list_hparams()
    return functools.partial(_mutable, name) if known else None


def text_problem(name: str) -> type | None:
    """Returns the problem class `name` of our catalogue, or None."""
    snake = registry.snake_case(name)
    return _as_in_t2t(snake) if snake in registry.list_problems() else None


@functools.cache
def _as_in_t2t(name: str) -> type:
    """Returns a problem's class; one of T2T's text_problems with T2T's methods and sizes."""
    cls: type = type(registry.get_problem(name))
    if cls.__module__ != "t2t_repro.problems.text2text":
        return cls
    return type(cls.__name__, (Text2TextProblem, cls), {"pairs_a_file": None})


class _Register:
    """A decorator with or without arguments: @register, @register() or @register("name")."""

    def __init__(self, register: Callable[[Any, str, Warn], None], warn: Warn):
        self.register, self.warn = register, warn

    def __call__(self, value: Any = None, name: str = "") -> Any:
        if value is None or isinstance(value, str):
            return lambda real: self(real, value or name)
        self.register(value, name, self.warn)
        return value


def _register_problem(cls: type, name: str, warn: Warn) -> None:
    _check_members(cls)
    registry.register_problem(cls, name=name)


def _defined_by_user(cls: type, name: str) -> bool:
    return any(name in vars(c) for c in cls.__mro__ if not c.__module__.startswith("t2t_repro."))


def _check_members(cls: type) -> None:
    """Refuses members that T2T calls and this project does not, and unnamed vocabulary files."""
    own = [n for n in ("feature_encoders", "get_or_create_vocab") if _defined_by_user(cls, n)]
    two_names = hasattr(cls, "source_vocab_name") and hasattr(cls, "target_vocab_name")
    if own and not two_names and not _defined_by_user(cls, "vocab_filenames"):
        raise UserError(
            f"problem {cls.__name__}: expected the member vocab_filenames, because {own[0]} may "
            f"read any file. Received: no such member. List the files in data_dir that {own[0]} "
            'reads: vocab_filenames = ["vocab.mine"], or [] for no file.'
        )
    for base in cls.__mro__:
        if base.__module__.startswith("t2t_repro."):
            continue
        for name in sorted(vars(base).keys() & _UNREAD_MEMBERS):
            raise UserError(
                f"problem {cls.__name__}: t2t_repro never calls {name}, which {base.__name__} "
                "defines. Remove it; docs/tensor2tensor.md lists the members that are called."
            )
        for name in sorted(vars(base).keys() & _FIXED_PROPERTIES.keys()):
            if (value := getattr(cls(), name)) != _FIXED_PROPERTIES[name]:
                raise UserError(
                    f"problem {cls.__name__}: expected {name}={_FIXED_PROPERTIES[name]}. "
                    f"Received: {value!r}. Remove {name}."
                )


def _register_hparams(function: Callable[[], Any], name: str, warn: Warn) -> None:
    name = name or function.__name__

    @functools.wraps(function)
    def frozen() -> HParams:
        result = function()
        if isinstance(result, MutableHParams):
            return result.freeze(name, warn)
        if isinstance(result, HParams):
            return result
        raise UserError(
            f"hparam set {name}: expected its function to end with `return hparams`. Received: "
            f"{result!r}."
        )

    registry.register_hparams(frozen, name=name)


def _register_nothing(function: Callable[[Any], None], name: str, warn: Warn) -> None:
    warn("register_ranged_hparams has no effect: t2t_repro has no hparam search.")


def _mutable(name: str) -> MutableHParams:
    return MutableHParams(registry.get_own_hparams(name))  # as T2T's module has it


def _with_prefix(names: list[str], prefix: str | None) -> list[str]:
    return [name for name in names if name.startswith(prefix or "")]


def _identity(text: str) -> str:
    return text
