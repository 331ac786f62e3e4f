"""What "Attention Is All You Need" prints (https://arxiv.org/abs/1706.03762v5), as data."""

from typing import NamedTuple

SUSTAINED_TFLOPS = 9.5  # of a P100 (footnote 5)
VOCABULARY = 37_000  # of English-German (section 5.1)
GPUS = 8  # P100 (section 5.2)
HOURS = {"base": 12, "big": 3.5 * 24}  # of training on these (section 5.2)


class System(NamedTuple):
    """A row of table 2: newstest2014 BLEU and training FLOPs; None where nothing is printed."""

    name: str
    bleu_ende: float | None
    bleu_enfr: float | None
    flop_ende: float | None
    flop_enfr: float | None


TABLE2 = (
    System("ByteNet", 23.75, None, None, None),
    System("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    System("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    System("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    System("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    System("Deep-Att + PosUnk Ensemble", None, 40.4, None, 8.0e20),
    System("GNMT + RL Ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    System("ConvS2S Ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    System("Transformer (base model)", 27.3, 38.1, 3.3e18, 3.3e18),
    System("Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19),
)


class Variation(NamedTuple):
    """A row of table 3: what it prints, on newstest2013, and the hparam set that is the row."""

    hparams_set: str
    changes: dict[str, float]  # printed in the row; all else is as in base
    perplexity: float
    bleu: float
    million_parameters: int | None  # None: none printed

    @property
    def name(self) -> str:
        """The row's short name."""
        return self.hparams_set.removeprefix("paper_table3_")


# The columns of table 3 in the base model's row. d: d_model; drop: P_drop; eps: label smoothing.
BASE = {
    **{"N": 6, "d": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64},
    **{"drop": 0.1, "eps": 0.1, "k steps": 100},
}
_BIG = {"d": 1024, "d_ff": 4096, "h": 16, "drop": 0.3, "k steps": 300}
TABLE3 = (
    Variation("paper_table3_base", {}, 4.92, 25.8, 65),
    Variation("paper_table3_a_h1", {"h": 1, "d_k": 512, "d_v": 512}, 5.29, 24.9, None),
    Variation("paper_table3_a_h4", {"h": 4, "d_k": 128, "d_v": 128}, 5.00, 25.5, None),
    Variation("paper_table3_a_h16", {"h": 16, "d_k": 32, "d_v": 32}, 4.91, 25.8, None),
    Variation("paper_table3_a_h32", {"h": 32, "d_k": 16, "d_v": 16}, 5.01, 25.4, None),
    Variation("paper_table3_b_dk16", {"d_k": 16}, 5.16, 25.1, 58),
    Variation("paper_table3_b_dk32", {"d_k": 32}, 5.01, 25.4, 60),
    Variation("paper_table3_c_n2", {"N": 2}, 6.11, 23.7, 36),
    Variation("paper_table3_c_n4", {"N": 4}, 5.19, 25.3, 50),
    Variation("paper_table3_c_n8", {"N": 8}, 4.88, 25.5, 80),
    Variation("paper_table3_c_dmodel256", {"d": 256, "d_k": 32, "d_v": 32}, 5.75, 24.5, 28),
    Variation("paper_table3_c_dmodel1024", {"d": 1024, "d_k": 128, "d_v": 128}, 4.66, 26.0, 168),
    Variation("paper_table3_c_dff1024", {"d_ff": 1024}, 5.12, 25.4, 53),
    Variation("paper_table3_c_dff4096", {"d_ff": 4096}, 4.75, 26.2, 90),
    Variation("paper_table3_d_dropout0", {"drop": 0.0}, 5.77, 24.6, None),
    Variation("paper_table3_d_dropout2", {"drop": 0.2}, 4.95, 25.5, None),
    Variation("paper_table3_d_smoothing0", {"eps": 0.0}, 4.67, 25.3, None),
    Variation("paper_table3_d_smoothing2", {"eps": 0.2}, 5.47, 25.7, None),
    Variation("paper_table3_e_learned_positions", {}, 4.92, 25.7, None),
    Variation("paper_table3_big", _BIG, 4.33, 26.4, 213),
)


class Conclusion(NamedTuple):
    """The paper's of table 3: one row is better than another by a score, or is equal to it.

    better, worse: rows of table 3 by their short names.
    by: "bleu" or "perplexity", of which less is better.
    equal: whether they are to be equal.
    """

    text: str
    better: str
    worse: str
    by: str = "bleu"
    equal: bool = False

    @property
    def gain(self) -> float:
        """By how much the better row is better in the paper."""
        rows = {row.name: getattr(row, self.by) for row in TABLE3}
        gain = rows[self.better] - rows[self.worse]
        return -gain if self.by == "perplexity" else gain


CONCLUSIONS = (
    Conclusion("(A) one head is worse than eight", "base", "a_h1"),
    Conclusion("(A) too many heads, 32, are worse than eight", "base", "a_h32"),
    Conclusion("(B) key width 16 is worse than 64", "base", "b_dk16"),
    Conclusion("(B) key width 32 is worse than 64", "base", "b_dk32"),
    Conclusion("(C) four layers are better than two", "c_n4", "c_n2"),
    Conclusion("(C) six layers are better than four", "base", "c_n4"),
    Conclusion("(C) d_model 512 is better than 256", "base", "c_dmodel256"),
    Conclusion("(C) d_model 1024 is better than 512", "c_dmodel1024", "base"),
    Conclusion("(C) d_ff 2048 is better than 1024", "base", "c_dff1024"),
    Conclusion("(C) d_ff 4096 is better than 2048", "c_dff4096", "base"),
    Conclusion("(D) dropout helps", "base", "d_dropout0"),
    Conclusion("(D) label smoothing helps BLEU", "base", "d_smoothing0"),
    Conclusion("sec. 5.4: label smoothing hurts perplexity", "d_smoothing0", "base", "perplexity"),
    Conclusion("(E) learned positions match sinusoids", "base", "e_learned_positions", equal=True),
    Conclusion("big is better than base", "big", "base"),
)


_WSJ_ONLY = "WSJ only, discriminative"
# Parser, what it was trained on, and F1 on section 23 of the WSJ.
TABLE4 = (
    ("Vinyals & Kaiser et al. (2014)", _WSJ_ONLY, 88.3),
    ("Petrov et al. (2006)", _WSJ_ONLY, 90.4),
    ("Zhu et al. (2013)", _WSJ_ONLY, 90.4),
    ("Dyer et al. (2016)", _WSJ_ONLY, 91.7),
    ("Transformer (4 layers)", _WSJ_ONLY, 91.3),
    ("Zhu et al. (2013)", "semi-supervised", 91.3),
    ("Huang & Harper (2009)", "semi-supervised", 91.3),
    ("McClosky et al. (2006)", "semi-supervised", 92.1),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    ("Transformer (4 layers)", "semi-supervised", 92.7),
    ("Luong et al. (2015)", "multi-task", 93.0),
    ("Dyer et al. (2016)", "generative", 93.3),
)
