"""Folders of images, written here with pillow."""

import numpy as np
import pytest
from PIL import Image

from recert.data import UnusableData, load_data


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def colour(value, size=(4, 6)):
    return np.full((*size, 3), value, np.uint8) + np.array([0, 1, 2], np.uint8)


def test_classes_and_files_in_the_order_of_their_names(tmp_path):
    for name, value in (("dog/b.png", 30), ("dog/a.png", 20), ("cat/z.PNG", 10), ("dog/deeper/c.png", 40)):
        save(tmp_path / name, colour(value))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    data = load_data(f"folder:{tmp_path}")
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 1, 1, 1]
    assert data.inputs.shape == (4, 3, 4, 6)
    assert data.inputs.dtype == np.float32
    np.testing.assert_allclose(data.inputs[:, :, 0, 0] * 255, [[v, v + 1, v + 2] for v in (10, 20, 30, 40)], rtol=1e-6)


def test_grey_images_have_one_channel(tmp_path):
    save(tmp_path / "a" / "1.png", np.full((5, 5), 51, np.uint8))
    data = load_data(f"folder:{tmp_path}")
    assert data.inputs.shape == (1, 1, 5, 5)
    assert data.inputs.max() == pytest.approx(0.2)


def test_grey_image_among_colours_becomes_colour(tmp_path):
    save(tmp_path / "a" / "1.png", colour(9))
    save(tmp_path / "a" / "2.png", np.full((4, 6), 51, np.uint8))
    np.testing.assert_allclose(load_data(f"folder:{tmp_path}").inputs[1], 0.2, rtol=1e-6)


def test_colour_image_among_grey_is_an_error(tmp_path):
    save(tmp_path / "a" / "1.png", np.full((4, 6), 51, np.uint8))
    save(tmp_path / "a" / "2.png", colour(9))
    with pytest.raises(UnusableData, match=r"expected grey images like .*1\.png, got RGB in .*2\.png"):
        load_data(f"folder:{tmp_path}")


def test_images_of_two_sizes(tmp_path):
    save(tmp_path / "a" / "1.png", colour(9))
    save(tmp_path / "b" / "2.png", colour(9, (7, 6)))
    with pytest.raises(
        UnusableData, match=r"expected images of one size, got 6x4 in .*1\.png and 6x7 in .*2\.png; folder:DIR\?size=N"
    ):
        load_data(f"folder:{tmp_path}")


def test_only_chosen_images_are_opened(tmp_path):
    save(tmp_path / "a" / "1.png", colour(9))
    (tmp_path / "a" / "2.png").write_bytes(b"junk")
    assert len(load_data(f"folder:{tmp_path}", count=1)) == 1
    with pytest.raises(UnusableData, match=r"expected an image, got .*2\.png"):
        load_data(f"folder:{tmp_path}")


@pytest.mark.parametrize("test_name", ["test", "val"])
def test_splits_when_there_are_splits(tmp_path, test_name):
    save(tmp_path / "train" / "a" / "1.png", colour(9))
    save(tmp_path / test_name / "a" / "1.png", colour(19))
    for split, value in (("train", 9), ("test", 19)):
        assert load_data(f"folder:{tmp_path}", split=split).inputs[0, 0, 0, 0] * 255 == pytest.approx(value)


def test_class_called_train_is_a_class(tmp_path):
    save(tmp_path / "train" / "1.png", colour(9))
    save(tmp_path / "car" / "1.png", colour(9))
    assert load_data(f"folder:{tmp_path}", split="train").classes == ("car", "train")


def test_no_images(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(UnusableData, match="got no image in any; known suffixes"):
        load_data(f"folder:{tmp_path}")


def test_deep_images_are_refused(tmp_path):
    save(tmp_path / "a" / "1.png", np.full((4, 4), 30_000, np.uint16))
    with pytest.raises(UnusableData, match="expected an image of 8 bits a channel, got mode I;16"):
        load_data(f"folder:{tmp_path}")


def test_images_are_resized_to_the_square_in_the_middle(tmp_path):
    """Each pixel is a mean of those that it stands for; what is left of the middle square and right of it is cut off."""
    wide = np.zeros((4, 8, 3), np.uint8)
    wide[:, :2], wide[:, 6:] = 255, 255  # cut off
    wide[:, 2:4], wide[:, 4:6] = 40, 80
    save(tmp_path / "a" / "1.png", wide)
    save(tmp_path / "a" / "2.png", colour(100, (9, 6)))
    data = load_data(f"folder:{tmp_path}?size=2")
    assert data.inputs.shape == (2, 3, 2, 2)
    # Of four pixels the middle of the first half is at 1: bilinear weights of those at 0.5, 1.5 and 2.5 are 0.75, 0.75 and 0.25.
    left, right = (1.5 * 40 + 0.25 * 80) / 1.75, (1.5 * 80 + 0.25 * 40) / 1.75
    np.testing.assert_allclose(data.inputs[0, 0] * 255, [[left, right]] * 2, atol=0.51)
    np.testing.assert_allclose(data.inputs[1, :, 0, 0] * 255, [100, 101, 102], atol=0.01)


def test_grey_and_palette_images_are_resized(tmp_path):
    save(tmp_path / "a" / "1.png", np.full((5, 9), 51, np.uint8))
    assert load_data(f"folder:{tmp_path}?size=3").inputs.shape == (1, 1, 3, 3)
    picture = Image.fromarray(colour(200, (6, 6))).convert("P")
    (tmp_path / "p" / "b").mkdir(parents=True)
    picture.save(tmp_path / "p" / "b" / "1.png")
    assert load_data(f"folder:{tmp_path / 'p'}?size=3").inputs.shape == (1, 3, 3, 3)


@pytest.mark.parametrize("option", ["size=0", "size=", "size=-3", "size=3x3", "sizes=3", ""])
def test_what_is_no_size(tmp_path, option):
    with pytest.raises(ValueError, match=r"expected folder:DIR or folder:DIR\?size=N"):
        load_data(f"folder:{tmp_path}?{option}")


def test_a_folder_may_have_a_question_mark(tmp_path):
    save(tmp_path / "why?size=3" / "a" / "1.png", colour(9))
    assert load_data(f"folder:{tmp_path / 'why?size=3'}").inputs.shape == (1, 3, 4, 6)
