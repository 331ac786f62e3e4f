"""Pictures: small, of one style, whole or not there, without matplotlib's global state."""

import base64
import struct

from t2t_repro.views import pictures

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def pixels(content: bytes) -> tuple[int, int]:
    return struct.unpack(">II", content[16:24])


def test_a_picture_is_a_png_and_the_same_bytes_each_time(tmp_path):
    drawn, axes = pictures.figure(title="Loss")
    axes.plot([3, 1, 2], label="post-norm")
    pictures.save(drawn, tmp_path / "new" / "loss.png")
    written = (tmp_path / "new" / "loss.png").read_bytes()
    assert written.startswith(SIGNATURE) and written == pictures.png(drawn)
    assert pixels(written) == (720, 518)
    assert base64.b64decode(pictures.data_uri(written).removeprefix("data:image/png;base64,")) == (
        written
    )


def test_a_band_is_the_mean_of_the_seeds_and_their_range():
    _, axes = pictures.figure()
    pictures.band(axes, [1, 3], [[2.0, 6.0, 7.0], [4.0]], label="three, then one")
    assert axes.lines[0].get_ydata().tolist() == [5.0, 4.0]
    corners = axes.collections[0].get_paths()[0].vertices.tolist()
    assert [1, 2.0] in corners and [1, 7.0] in corners and [3, 4.0] in corners
