"""Images by the file names that other tools give."""

from __future__ import annotations

import pytest

from cgmcr2.clustering.filematch import FileIndex

INDEX = FileIndex(["a.jpg", "sub/a.jpg", "sub/b c.jpg", "x/d.jpg", "y/d.jpg", "y/d.png", "caf\udce9.jpg", "a%20b.jpg"])


@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("a.jpg", 0),
        ("/home/me/photos/sub/a.jpg", 1),
        ("sub\\a.jpg", 1),
        ("b c.jpg", 2),
        ("b c", 2),
        ("/data/local-files/?d=photos/sub/b%20c.jpg", 2),
        ("/data/upload/12/0123abcd-b%20c.jpg", 2),
        ("s3://bucket/photos/sub/b%20c.jpg", 2),
        ("x/d", 3),
        ("photos/y/d.png", 5),
        ("caf\\xe9.jpg", 6),
        ("a%20b.jpg", 7),
        ("other/sub.jpg", None),
        ("z/d.jpg", None),
        ("A.jpg", None),
        ("", None),
    ],
)
def test_names(file: str, row: int | None) -> None:
    assert INDEX.match([file]) == [row]


@pytest.mark.parametrize("file", ["d.jpg", "y/d", "d"])
def test_ambiguous_names_are_refused(file: str) -> None:
    with pytest.raises(ValueError, match=f"'{file}' can be '[xy]/d.jpg' or 'y/d.*'; give the path as in"):
        INDEX.match([file])


def test_paths_of_another_folder_are_not_images() -> None:
    """An image that could not be read, such as new/a.jpg, is not the image a.jpg."""
    assert INDEX.match(["a.jpg", "sub/a.jpg", "new/a.jpg"]) == [0, 1, None]
    assert INDEX.match(["/p/a.jpg", "/p/x/d.jpg", "/p/new/a.jpg", "sub/b c.jpg", "b c.jpg"]) == [0, 3, None, 2, 2]
