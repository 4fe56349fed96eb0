"""One picture, whatever its mode and its state: RGB and upright, or a sentence that says why not."""

import os
import struct
import warnings
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from shortlist.data.decoding import PictureError, decode, decode_image, read_picture
from shortlist.errors import InputError
from tests.data.drawings import file_of, noise

BY_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def pixels(source, **options):
    """As (H, W, 3) int64, the way references are typed here."""
    return read_picture(source, **options).permute(1, 2, 0).numpy().astype(np.int64)


def gray(values):
    return np.repeat(np.asarray(values)[..., None], 3, axis=2)


# Modes


def test_rgb_comes_back_as_it_is():
    assert (pixels(file_of(Image.fromarray(noise()))) == noise()).all()
    assert decode(file_of(Image.fromarray(noise()))).remark is None


def test_shape_and_type_are_channels_first_bytes():
    picture = read_picture(file_of(Image.fromarray(noise(6, 9))))
    assert picture.shape == (3, 6, 9)
    assert picture.dtype == torch.uint8
    assert picture.is_contiguous()


def test_gray_has_three_equal_channels():
    values = noise(channels=1)
    assert (pixels(file_of(Image.fromarray(values))) == gray(values)).all()
    assert decode(file_of(Image.fromarray(values))).remark == "grayscale, read as RGB"


def test_one_bit_is_black_and_white():
    marks = noise(channels=1) > 127
    assert (pixels(file_of(Image.fromarray(marks))) == gray(np.where(marks, 255, 0))).all()


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_transparency_is_laid_on_white(mode):
    values = noise(channels=2 if mode == "LA" else 4)
    colour = gray(values[..., 0]) if mode == "LA" else values[..., :3].astype(np.int64)
    opacity = values[..., -1:] / 255
    expected = colour * opacity + 255 * (1 - opacity)
    found = pixels(file_of(Image.fromarray(values, mode)))
    assert np.abs(found - expected).max() <= 1
    assert (found[values[..., -1] == 255] == colour[values[..., -1] == 255]).all()


def palette_picture():
    image = Image.fromarray(noise(channels=1) % 4, "P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
    return image


COLOURS = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90], [100, 110, 120]])


def test_a_palette_is_looked_up():
    assert (pixels(file_of(palette_picture())) == COLOURS[noise(channels=1) % 4]).all()


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_the_transparent_colour_of_a_palette_is_white(form):
    places = noise(channels=1) % 4
    expected = np.where((places == 2)[..., None], 255, COLOURS[places])
    assert (pixels(file_of(palette_picture(), form, transparency=2)) == expected).all()


def test_a_palette_with_half_transparent_colours_is_laid_on_white():
    places, opacity = noise(channels=1) % 4, np.array([255, 128, 0, 64]) / 255
    expected = COLOURS[places] * opacity[places][..., None] + 255 * (1 - opacity[places][..., None])
    assert np.abs(pixels(file_of(palette_picture(), transparency=bytes([255, 128, 0, 64]))) - expected).max() <= 1


def test_the_transparent_shade_of_gray_is_white():
    shade = noise(channels=1)
    assert (pixels(file_of(Image.fromarray(shade), transparency=7)) == gray(np.where(shade == 7, 255, shade))).all()


def test_the_transparent_colour_of_rgb_is_white():
    values = noise()
    values[2, 3] = (1, 2, 3)
    expected = values.astype(np.int64)
    expected[(values == (1, 2, 3)).all(-1)] = 255
    assert (pixels(file_of(Image.fromarray(values), transparency=(1, 2, 3))) == expected).all()


def test_cmyk_is_ink_taken_from_white():
    values = noise(channels=4).astype(np.float64)
    expected = (255 - values[..., :3]) * (255 - values[..., 3:]) / 255
    file = file_of(Image.fromarray(noise(channels=4), "CMYK"), "TIFF")
    assert np.abs(pixels(file) - expected).max() <= 1
    assert decode(file).remark == "CMYK, read as RGB"


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
def test_sixteen_bits_are_scaled_not_cut_off(order):
    values = np.array([[0, 128, 256, 1000], [30000, 32768, 65534, 65535]], np.uint16)
    file = tiff(values.astype(f"{order}u2"), order, 16)
    assert (pixels(file) == gray((values / 65535 * 255).round())).all()
    assert decode(file).remark == "more than 8 bits a pixel, scaled to 8"


def test_a_sixteen_bit_png_is_scaled():
    values = np.array([[0, 300, 65535]], np.uint16)
    assert (pixels(file_of(Image.fromarray(values))) == gray((values / 65535 * 255).round())).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0, 100, 255]], [[0, 100, 255]]),
        ([[0, 100, 65535]], [[0, 0, 255]]),
        ([[-5, 70000, 65535]], [[0, 255, 255]]),
    ],
)
def test_whole_numbers_of_32_bits_go_to_255_or_to_65535(values, expected):
    assert (pixels(file_of(Image.fromarray(np.array(values, np.int32)), "TIFF")) == gray(expected)).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0.0, 0.5, 1.0]], [[0, 128, 255]]),
        ([[0.0, 100.4, 300.0]], [[0, 100, 255]]),
        ([[float("nan"), 0.5, -1.0]], [[0, 128, 0]]),
        ([[float("inf"), 10.0, float("-inf")]], [[255, 10, 0]]),
    ],
)
def test_floats_go_to_1_or_to_255(values, expected):
    assert (pixels(file_of(Image.fromarray(np.array(values, np.float32)), "TIFF")) == gray(expected)).all()


def test_a_picture_without_any_number_is_black():
    assert (pixels(file_of(Image.fromarray(np.full((2, 2), np.nan, np.float32)), "TIFF")) == 0).all()


def tiff(values, order, bits):
    """A gray TIFF file, typed by hand: Pillow writes one byte order only."""
    data = values.tobytes()
    height, width = values.shape
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, 1), (273, 8), (277, 1), (278, height), (279, len(data))]
    directory = struct.pack(f"{order}H", len(tags))
    for tag, value in tags:
        directory += struct.pack(f"{order}HHI", tag, 4, 1) + struct.pack(f"{order}I", value)
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(f"{order}I", 8 + len(data)) + data + directory + struct.pack(f"{order}I", 0)


# Frames


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_of_several_frames_is_used(form):
    colours = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
    first, *others = (Image.new("RGB", (16, 16), colour) for colour in colours)
    options = {"lossless": True} if form == "WEBP" else {}
    file = file_of(first, form, save_all=True, append_images=others, **options)
    assert (pixels(file) == np.array(colours[0])).all()
    assert decode(file).remark == "the first of several frames is used"


def test_the_second_picture_of_a_camera_file_goes_without_saying():
    file = file_of(Image.new("RGB", (16, 16), (250, 0, 0)), "MPO", save_all=True, append_images=[Image.new("RGB", (16, 16))])
    assert np.abs(pixels(file) - np.array([250, 0, 0])).max() <= 3
    assert decode(file).remark is None


# Orientation: how the stored rows must be turned, by the words of the EXIF standard (where row 0 and column 0 belong)

TURNED = {
    1: lambda stored: stored,  # top, left
    2: lambda stored: stored[:, ::-1],  # top, right
    3: lambda stored: stored[::-1, ::-1],  # bottom, right
    4: lambda stored: stored[::-1],  # bottom, left
    5: lambda stored: stored.transpose(1, 0, 2),  # left, top
    6: lambda stored: stored[::-1].transpose(1, 0, 2),  # right, top
    7: lambda stored: stored[::-1, ::-1].transpose(1, 0, 2),  # right, bottom
    8: lambda stored: stored[:, ::-1].transpose(1, 0, 2),  # left, bottom
}


def oriented(image, orientation, form="PNG", **options):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return file_of(image, form, exif=exif, **options)


@pytest.mark.parametrize("orientation", TURNED)
def test_pictures_are_turned_upright(orientation):
    found = pixels(oriented(Image.fromarray(noise(6, 9)), orientation))
    expected = TURNED[orientation](noise(6, 9))
    assert found.shape == expected.shape
    assert (found == expected).all()


@pytest.mark.parametrize("orientation", [0, 9, 200])
def test_an_orientation_that_does_not_exist_turns_nothing(orientation):
    assert (pixels(oriented(Image.fromarray(noise()), orientation)) == noise()).all()


@pytest.mark.parametrize("orientation", [3, 6])
def test_gray_and_shrunken_pictures_are_turned_too(orientation):
    values = np.zeros((64, 96), np.uint8)
    values[:32, :48] = 255  # one bright quarter
    found = pixels(oriented(Image.fromarray(values), orientation, "JPEG", quality=95), at_least=8)
    expected = TURNED[orientation](gray(values))[4::8, 4::8]
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 10


# The built-in scales of JPEG


@pytest.mark.parametrize(("at_least", "side"), [(None, 64), (64, 64), (33, 64), (32, 32), (17, 32), (16, 16), (8, 8), (1, 8)])
def test_a_jpeg_is_decoded_no_smaller_than_asked(at_least, side):
    file = file_of(Image.new("RGB", (128, 64), (10, 200, 30)), "JPEG")
    found = pixels(file, at_least=at_least)
    assert found.shape == (side, 2 * side, 3)
    assert np.abs(found - np.array([10, 200, 30])).max() <= 3


def test_a_png_is_decoded_whole():
    assert pixels(file_of(Image.fromarray(noise(64, 64))), at_least=8).shape == (64, 64, 3)


# Files that cannot be read

WHOLE = {
    "JPEG": {},
    "PNG": {},
    "WEBP": {"lossless": True},
    "BMP": {},
    "GIF": {},
    "TIFF": {},
    "PPM": {},
    "JPEG2000": {},
}


@pytest.mark.parametrize("form", WHOLE)
@pytest.mark.parametrize("tenth", range(10))
def test_a_file_cut_short_is_refused(form, tenth):
    whole = file_of(Image.fromarray(noise(48, 48)), form, **WHOLE[form])
    with pytest.raises(PictureError, match=r"damaged or cut short \(.+\)|not a picture that can be read"):
        decode(whole[: len(whole) * tenth // 10])


@pytest.mark.parametrize("form", WHOLE)
def test_damaged_bytes_give_a_picture_or_a_sentence(form):
    whole = file_of(Image.fromarray(noise(24, 24)), form, **WHOLE[form])
    generator = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for place in generator.integers(0, len(damaged), 6):
            damaged[place] = generator.integers(256)
        with warnings.catch_warnings(action="ignore"):
            try:
                assert decode(bytes(damaged), most_pixels=10**6).image.mode == "RGB"
            except PictureError:
                continue


def test_a_damaged_avif_is_refused():
    whole = file_of(Image.fromarray(noise(24, 24)), "AVIF")
    for place in range(0, len(whole), 7):
        damaged = whole[:place] + bytes(8) + whole[place + 8 :]
        try:
            assert decode(damaged, most_pixels=10**6).image.mode == "RGB"
        except PictureError:
            continue


def test_odd_metadata_is_no_warning_from_a_library_below():
    file = bytearray(oriented(Image.fromarray(noise()), 6, "JPEG"))
    place = file.index(b"Exif\0\0") + 6
    file[place + 8 : place + 10] = b"\xff\xff"  # far more entries than there are
    decode(bytes(file))


@pytest.mark.parametrize("content", [b"", b"\0", b"not a picture at all\n" * 10, b"\xff\xd8", b"GIF89a"])
def test_what_is_no_picture_is_refused(content, tmp_path):
    path = tmp_path / "x.jpg"
    path.write_bytes(content)
    with pytest.raises(PictureError, match=r"not a picture that can be read|damaged or cut short"):
        read_picture(path)
    with pytest.raises(PictureError):
        read_picture(content)


def test_a_text_named_like_a_picture_is_told_so(tmp_path):
    (tmp_path / "x.jpg").write_text("hello, world")
    with pytest.raises(PictureError, match=r"^not a picture that can be read$"):
        read_picture(tmp_path / "x.jpg")


def test_an_absent_file_is_told_so(tmp_path):
    with pytest.raises(PictureError, match=r"^there is no such file$"):
        read_picture(tmp_path / "x.jpg")


def test_a_folder_named_like_a_picture_is_refused(tmp_path):
    (tmp_path / "x.jpg").mkdir()
    with pytest.raises(PictureError):
        read_picture(tmp_path / "x.jpg")


def test_a_folder_named_like_a_picture_is_called_a_folder(tmp_path):
    (tmp_path / "x.jpg").mkdir()
    with pytest.raises(PictureError, match="folder") as caught:
        read_picture(tmp_path / "x.jpg")
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.skipif(BY_ROOT, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(file_of(Image.fromarray(noise())))
    path.chmod(0)
    with pytest.raises(PictureError, match=r"[Pp]ermission"):
        read_picture(path)


def test_the_refusal_is_an_input_error():
    assert issubclass(PictureError, InputError)


# Bombs: a small file that says it is huge


def png_header(width, height):
    """A PNG of which only the beginning is there: its header, and a few bytes of its pixels."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(bytes(30))]
    packed = [struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize(("width", "height"), [(30_000, 30_000), (10_001, 10_000), (2**31 - 1, 1)])
def test_a_bomb_is_refused_before_it_is_decoded(width, height):
    with pytest.raises(PictureError, match="larger than the limit of 100,000,000"):
        read_picture(png_header(width, height))


def test_large_pictures_within_the_limit_cause_no_warning_of_pillow():
    """95 million pixels: Pillow would warn. The pixels are missing, so the refusal is about that."""
    with pytest.raises(PictureError, match="damaged or cut short"):
        read_picture(png_header(9_500, 10_000))


def test_the_limit_can_be_set():
    file = file_of(Image.fromarray(noise(10, 10)))
    assert read_picture(file, most_pixels=100).shape == (3, 10, 10)
    with pytest.raises(PictureError, match="10 × 10 pixels, larger than the limit of 99"):
        read_picture(file, most_pixels=99)


def test_a_limit_above_that_of_pillow_is_refused():
    with pytest.raises(InputError, match="most_pixels: .*got 1,000,000,000"):
        read_picture(png_header(20_000, 10_000), most_pixels=10**9)


def test_an_absurd_bmp_is_refused():
    header = (
        b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0)
    )
    with pytest.raises(PictureError, match="larger than the limit"):
        read_picture(header)


def test_a_bmp_without_pixels_is_refused():
    header = b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 0, 0, 1, 24, 0, 0, 0, 0, 0, 0)
    with pytest.raises(PictureError):
        read_picture(header)


# Notes beside the picture


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
def test_garbage_for_exif_does_not_spoil_the_picture(kind):
    garbage = (b"Exif\0\0" if kind == "JPEG" else b"") + b"MM\0*\0\0"
    image = Image.fromarray(noise())
    assert read_picture(file_of(image, kind, exif=garbage)).shape == (3, image.height, image.width)


def test_a_tag_of_the_wrong_kind_does_not_spoil_the_turn():
    """Orientation 6, and beside it a tag that cannot be written back."""
    entries = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0) + struct.pack(">HHI4s", 0x0100, 2, 4, b"abc\0")
    exif = b"Exif\0\0MM\0*\0\0\0\x08" + struct.pack(">H", 2) + entries + bytes(4)
    image = Image.fromarray(noise())
    assert read_picture(file_of(image, "JPEG", exif=exif)).shape == (3, image.width, image.height)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have names on POSIX systems only")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.jpg")
    with pytest.raises(PictureError, match="no ordinary file"):
        read_picture(tmp_path / "x.jpg")


def test_formats_that_bring_programs_with_them_are_not_opened():
    with pytest.raises(PictureError, match="not a picture that can be read"):
        read_picture(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")


def test_deep_pictures_are_scaled_alike_from_the_first_row_to_the_last():
    """More rows than are scaled at a time; the only value above 1, which sets the scale of floats, is in the last one."""
    deep = np.linspace(0, 65535, 150 * 3).reshape(150, 3)
    pixels = decode_image(Image.fromarray(deep.astype(np.uint16))).pixels
    np.testing.assert_array_equal(pixels[0], (deep.astype(np.uint16) / 257).round())
    floats = np.full((150, 3), 0.6, np.float32)
    floats[-1, -1] = 200
    found = decode_image(Image.fromarray(floats)).pixels[0]
    assert (found[0, 0], found[70, 1], found[-1, -1]) == (1, 1, 200)
