"""How to decode: tensor2tensor's decode hparams, typed.

It loads nothing heavy, so that a wrong one is refused at once.
"""

import dataclasses
from typing import Annotated

from t2t_repro import fields
from t2t_repro.errors import UserError, unknown

LONGEST_INPUT = 1024  # tokens; see max_input_size
FILLER = -1e5  # fillers for missing hypotheses score below
T2T_BATCH_SIZE = 32
# They decide the best translation: an export keeps them, in its graph or in provenance.json.
KEPT = ("beam_size", "alpha", "extra_length", "max_input_size")

# tensor2tensor's options without effect here, with their defaults, the only allowed values.
_INERT = r"""
    block_size=0 border_percent=2 decode_in_memory=false decode_reference= decode_timeout_mins=240
    decode_to_file= delimiter=\n display_decoded_images=false eos_penalty=0.0
    export_extra_infer_outputs= frames_per_second=10 guess_and_check_epsilon=-1
    guess_and_check_top_k=0 insertion_parallel=false log_results=true max_display_decodes=5
    max_display_outputs=10 mlperf_decode_step=0.0 mlperf_success=false mlperf_threshold=25.0
    multiproblem_task_id=-1 num_decodes=1 save_images=false shard_google_format=false
    shards_start_offset=0 summaries_log_dir=decode vgg_ckpt_path=
"""


# Fields without effect get a warning; fields.unused finds them.
_SAMPLED = fields.AppliesIf(lambda settings: settings.sampling_method != "argmax", "")
_OF_BEAMS = fields.AppliesIf(lambda settings: settings.return_beams, "")
_GREEDY = fields.AppliesIf(lambda settings: settings.beam_size == 1, "")
_FORCED = fields.AppliesIf(lambda settings: settings.forces_length, "")
_INPUT_SIZE = fields.rule(
    lambda size: size == -1 or size >= 2, "{name} to be -1, or at least 2 (with the end token)"
)
_TOP_K = fields.rule(lambda k: k == -1 or k > 0, "{name} to be -1 or positive")
_TOP_P = fields.rule(lambda p: 0 < p <= 1, "0 < {name} <= 1")


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How to draw.

    temperature: the logits are divided by it; below 1 is nearer to greedy search.
    top_k: draw from the k most probable tokens only; -1: from all.
    top_p: draw from the fewest tokens whose probabilities sum to this; 1: all.
    """

    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeHParams:
    """tensor2tensor's decode hparams, the ones that text needs, with its defaults.

    beam_size: beams; 1 is greedy search.
    alpha: exponent of the length penalty.
    extra_length: a translation has at most this many tokens more than its source.
    batch_size: sentences in a batch. 0: as many short sentences as make a good batch, at most 128;
        tensor2tensor's 32 under --t2t_exact.
    return_beams: write all beams, separated by tabs.
    write_beam_scores: with return_beams, write each beam's score behind it.
    max_input_size: cut longer inputs, which warns. -1: 1,024 tokens; no limit under --t2t_exact.
    num_samples: decode this many lines or examples only, the first; -1 is all.
    force_decode_length: greedy search continues after the end, to the limit of a sentence. What
        follows the end counts neither in the score nor in the text.
    skip_eos_postprocess: with force_decode_length, writes it, the end mark included.
    identity_output: write ids instead of text.
    min_length_ratio: no translation ends before it has as many tokens as its source, times this.
        tensor2tensor has the name and never reads it.
    max_length_ratio: ours; no translation has more tokens than its source, times this; 0: as many
        as extra_length says. The ends count in neither, so that one that is cut, as it has no end
        by then, has another token in its place.
    sampling_method: argmax is search; random draws each token, with beam_size=1. This one and the
        next two are hparams of tensor2tensor's models.
    sampling_temp: divides the logits; below 1 it makes probable tokens more probable.
    sampling_keep_top_k: draw from this many most probable tokens; -1: from all.
    sampling_keep_top_p: ours; draw from the fewest tokens whose probabilities sum to this.
    sampling_seed: ours; the same seed gives a sentence the same translation, whatever its
        neighbours.
    return_token_scores: ours; the log-probability of each token, its end included.
    return_alignments: ours; which words of the source each translated one comes from, as the
        model's attention has it: see decoding/pairs.py.
    raw_output: ours; write the model's own output where the problem converts it: tags, not trees.
    well_formed: ours, for parsing problems of whole tags; the search writes only tags that are one
        tree over the words of the source. See parsing/constraint.py.
    shards, shard_id: of `shards` files, decode one: the name of the source, and that of the result,
        end with the three digits of `shard_id`; of a dataset, decode its file of that number.
    """

    beam_size: fields.Count = 4
    alpha: fields.NotNegative = 0.6
    extra_length: fields.CountOrZero = 100
    batch_size: fields.CountOrZero = 0
    return_beams: bool = False
    write_beam_scores: Annotated[bool, _OF_BEAMS] = False
    max_input_size: Annotated[int, _INPUT_SIZE] = -1
    num_samples: Annotated[int, fields.least(-1)] = -1
    force_decode_length: Annotated[bool, _GREEDY] = False
    skip_eos_postprocess: Annotated[bool, _FORCED] = False
    identity_output: bool = False
    min_length_ratio: fields.NotNegative = 0.0
    max_length_ratio: fields.NotNegative = 0.0
    sampling_method: Annotated[str, fields.one_of("argmax", "random")] = "argmax"
    sampling_temp: Annotated[fields.Positive, _SAMPLED] = 1.0
    sampling_keep_top_k: Annotated[int, _TOP_K, _SAMPLED] = -1
    sampling_keep_top_p: Annotated[float, _TOP_P, _SAMPLED] = 1.0
    sampling_seed: Annotated[int, _SAMPLED] = 0
    return_token_scores: bool = False
    return_alignments: bool = False
    raw_output: bool = False
    well_formed: bool = False
    shards: fields.Count = 1
    shard_id: fields.CountOrZero = 0

    def __post_init__(self):
        fields.check_rules(self)
        if self.shard_id >= self.shards:
            raise UserError(
                "Expected decode hparam shard_id to be less than decode hparam shards. Received: "
                f"shard_id={self.shard_id}, shards={self.shards}."
            )
        if self.sampling_method != "argmax" and self.beam_size > 1:
            raise UserError(
                "Expected beam_size=1 with decode hparam sampling_method=random. Received: "
                f"beam_size={self.beam_size}."
            )

    def changed(self) -> list[str]:
        """Returns the names that differ from their defaults."""
        return [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]

    @property
    def forces_length(self) -> bool:
        """Whether greedy search continues after the end of a sentence."""
        return self.force_decode_length and self.beam_size == 1

    @property
    def to_the_limit(self) -> bool:
        """Whether what follows the end is written."""
        return self.forces_length and self.skip_eos_postprocess

    @property
    def shows_scores(self) -> bool:
        """Whether each beam's score is written after it."""
        return self.return_beams and self.write_beam_scores

    @property
    def sampling(self) -> Sampling | None:
        """How to draw tokens; None: search."""
        if self.sampling_method == "argmax":
            return None
        return Sampling(self.sampling_temp, self.sampling_keep_top_k, self.sampling_keep_top_p)

    @property
    def top_beams(self) -> int:
        """How many hypotheses a sentence yields."""
        return self.beam_size if self.return_beams else 1

    @property
    def shard_suffix(self) -> str:
        """The end of the names of a shard's files: "002", or "" if there is only one."""
        return f"{self.shard_id:03d}" if self.shards > 1 else ""

    @classmethod
    def parse(cls, text: str | None, *defaults: str) -> "DecodeHParams":
        """Returns the defaults with "name=value,name=value" applied, as --decode_hparams.

        Args:
            text: what the user gave.
            defaults: replace the defaults here, in the same form; later ones override earlier ones.

        Raises:
            UserError: on an unknown name, a bad value, or an option that would do nothing.
        """
        ours = {field.name: field for field in dataclasses.fields(cls)}
        given: dict[str, str] = {}
        for each in (*defaults, text or ""):
            given |= fields.parse_overrides(each)
        inert = dict(each.split("=") for each in _INERT.split())
        values = {}
        for name, value in given.items():
            if name in inert and value.lower() == inert[name]:
                continue
            if name in inert:
                raise UserError(
                    f"Expected decode hparam {name}={inert[name]!r}, tensor2tensor's default: "
                    f"t2t_repro has no such option. Received: {value!r}. Remove the hparam."
                )
            if name not in ours:
                raise unknown("decode hparam", name, ours)
            values[name] = fields.parse_value(ours[name], value, "decode hparam")
        return cls(**values)
