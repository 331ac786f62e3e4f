import pytest

from t2t_repro.errors import UserError
from t2t_repro.scoring import files


def test_waits_for_files_and_for_the_directory(tmp_path, make_clock):
    directory = tmp_path / "late"

    def write(naps):
        directory.mkdir(exist_ok=True)
        if naps == 3:
            (directory / "x-5").write_text("")

    clock = make_clock(write)
    (found,) = files.step_files(directory, wait_minutes=1)
    assert (found.step, found.path.name) == (5, "x-5")
    assert clock.naps == 3 + 6


def test_a_directory_that_never_comes(tmp_path, make_clock):
    clock = make_clock()
    with pytest.raises(UserError):
        list(files.step_files(tmp_path / "no", wait_minutes=1))
    assert clock.now == 60


def test_what_is_a_file_of_a_step(tmp_path):
    for name in ("a-7", "b-12", "notes.txt", "a-7x", "-3", "a-"):
        (tmp_path / name).write_text("")
    (tmp_path / "a-8").mkdir()
    found = {step: file.path.name for step, file in files.files_by_step(tmp_path).items()}
    assert found == {3: "-3", 7: "a-7", 12: "b-12"}
    (tmp_path / "c-07").touch()
    with pytest.raises(UserError, match="7"):
        files.files_by_step(tmp_path)


def test_blanks_at_the_end_count_for_tensor2tensors_tokeniser_alone(tmp_path):
    """With a blank behind, its "2018." is two tokens; its bleu_wrapper gives this BLEU."""
    lines = ["Das Haus wurde im Jahr 2018.", "Er kam um 12.", "Drei kleine Hunde"]
    (tmp_path / "out").write_text("\n".join(lines) + "\n")
    (tmp_path / "reference").write_text(" \n".join(lines) + "\n")
    scores = files.score_files(tmp_path / "out", tmp_path / "reference")
    assert scores.t2t_cased.score == pytest.approx(60.121638, abs=1e-5)
    for other in (scores.sacrebleu, scores.chrf2, scores.compound_split):
        assert other.score == pytest.approx(100)


def test_a_translation_of_nothing_scores_nothing(tmp_path):
    (tmp_path / "out").write_text("\n\n")
    (tmp_path / "reference").write_text("A dog .\nA cat .\n")
    assert files.score_files(tmp_path / "out", tmp_path / "reference").sacrebleu.score == 0


def test_a_reference_in_wmts_sgml_is_its_segments(tmp_path):
    lines = ["The red dog runs in the park .", "A cat &amp; a dog sleep on a chair ."]
    (tmp_path / "hyp").write_text("".join(f"{line}\n" for line in lines))
    segments = "".join(f'<seg id="{i}">{line}</seg>\n' for i, line in enumerate(lines))
    (tmp_path / "ref.sgm").write_text(f"<refset>\n{segments}</refset>\n")
    assert files.score_files(
        tmp_path / "hyp", tmp_path / "ref.sgm"
    ).sacrebleu.score == pytest.approx(100)
