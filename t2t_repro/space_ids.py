"""Target spaces by number: the classes of text that one model may write."""


class SpaceID:
    """What kind of text a side is, for the target-space embedding. T2T's numbers."""

    GENERIC = 0
    IMAGE_LABEL = 1
    EN_CHR = 2
    EN_TOK = 3
    EN_BPE_TOK = 4
    FR_CHR = 5
    FR_TOK = 6
    DE_CHR = 7
    DE_TOK = 8
    DE_BPE_TOK = 9
    DIGIT_0 = 10
    DIGIT_1 = 11
    AUDIO_WAV = 12
    AUDIO_SPECTRAL = 13
    PARSE_CHR = 14
    PARSE_TOK = 15
    ZH_TOK = 16
    ICE_CHAR = 17
    ICE_TOK = 18
    ICE_PARSE_TOK = 19
    MK_TOK = 20
    CS_TOK = 21
    CS_CHR = 22
    DNA = 23
    REAL = 24
    IMAGE = 25
    PEPTIDE = 26
    PY_TOK = 27
    CPP_TOK = 28
    STROKES = 29
    PICKLED_PYTHON = 30
