"""T2T's cleaner, by its own answers (1.15.7) for sentences of ours."""

import pytest

from t2t_repro.corpora.cleaner_en_xx import clean_en_xx_pairs

KEPT = [
    ("The house is old.", "Das Haus ist alt."),
    ("Is it old?", "Ist es alt?"),
    ("He said “yes” twice.", "Er sagte zweimal ja."),
    ('He said "yes."', "Er sagte ja."),
    ("It's Tom's, isn't it?", "Es ist Toms, nicht wahr?"),
    ("There are 10,000 of them.", "Es sind 10 000."),
    ("It rains (a lot) now.", "Es regnet."),
    ('It rains! "We stay."', "Es regnet! „Wir bleiben.“"),
]
LEFT_OUT = [
    ("the house is old.", "Das Haus ist alt."),
    ("The house is old", "Das Haus ist alt"),
    ("“Yes, it is!”", "„Ja!“"),
    ('He said "yes.“', "Er sagte ja."),
    ('He said "yes" and "no".', "Er sagte ja und nein."),
    ('He said "yes.', "Er sagte ja."),
    ("The 'a' and 'b' differ.", "Sie sind verschieden."),
    ('He wrote \' "x" here.', "Er schrieb."),
    ("Mr. Smith: It is late.", "Herr Smith: Es ist spät."),
    ("Note: it is late.", "Es ist spät."),
    ("There are 10 000 of them.", "Es sind 10 000."),
    ("Wait , it rains.", "Warte."),
    ("Copyright by us.", "Von uns."),
    ("All rights © us.", "Von uns."),
    ("It rains (a lot.", "Es regnet."),
    ("It rains a lot) now.", "Es regnet."),
    ("NEW YORK - It rains.", "Es regnet."),
    ("File_name is long.", "Name."),
    ("It rains. We stay.", "Es regnet, wir bleiben."),
    ("We met J. Smith here.", "Wir trafen J. Smith hier."),
    ("It is b. CD. Really so.", "Es ist b. CD. Wirklich so."),
    ("Ünder the tree.", "Unter dem Baum."),
    ("", "leer"),
]
CUT = [  # at each |
    ("It rains.|We stay.", "Es regnet.|Wir bleiben."),
    ("We saw the EU.|It grew.", "Wir sahen die EU.|Sie wuchs."),
    ("It was on May 5.|We left.", "Es war am 5. Mai.|Wir gingen."),
    ("One.|Two.|Three four.", "Eins.|Zwei.|Drei vier."),
]


@pytest.mark.parametrize("pair", KEPT + CUT)
def test_what_is_kept_is_cut_into_sentences(pair):
    sentences = list(zip(*(side.split("|") for side in pair), strict=True))
    assert list(clean_en_xx_pairs([tuple(side.replace("|", " ") for side in pair)])) == sentences


@pytest.mark.parametrize("pair", LEFT_OUT)
def test_what_is_left_out(pair):
    assert list(clean_en_xx_pairs([KEPT[0], pair, KEPT[1]])) == KEPT[:2]
    part = ("It rains. NEW YORK - We stay.", "Es regnet. Wir bleiben.")
    assert list(clean_en_xx_pairs([part])) == [("It rains.", "Es regnet.")]
