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
CUT = [
    (
        ("It rains. We stay.", "Es regnet. Wir bleiben."),
        [("It rains.", "Es regnet."), ("We stay.", "Wir bleiben.")],
    ),
    (
        ("We saw the EU. It grew.", "Wir sahen die EU. Sie wuchs."),
        [("We saw the EU.", "Wir sahen die EU."), ("It grew.", "Sie wuchs.")],
    ),
    (
        ("It was on May 5. We left.", "Es war am 5. Mai. Wir gingen."),
        [("It was on May 5.", "Es war am 5. Mai."), ("We left.", "Wir gingen.")],
    ),
    (("It rains. NEW YORK - We stay.", "Es regnet. Wir bleiben."), [("It rains.", "Es regnet.")]),
    (
        ("One. Two. Three four.", "Eins. Zwei. Drei vier."),
        [("One.", "Eins."), ("Two.", "Zwei."), ("Three four.", "Drei vier.")],
    ),
]


@pytest.mark.parametrize(
    ("pair", "sentences"),
    [*((pair, [pair]) for pair in KEPT), *((pair, []) for pair in LEFT_OUT), *CUT],
)
def test_kept_left_out_or_cut_into_sentences(pair, sentences):
    assert list(clean_en_xx_pairs([pair])) == sentences


def test_pairs_keep_their_order():
    pairs = [KEPT[0], LEFT_OUT[0], CUT[0][0], KEPT[1]]
    assert list(clean_en_xx_pairs(pairs)) == [KEPT[0], *CUT[0][1], KEPT[1]]
