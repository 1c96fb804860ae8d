from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgmcr2.runs import Edits

from .conftest import ORIGIN, TOKEN, Client


def test_the_page_and_its_data_are_served_with_the_token(reader: Client) -> None:
    for path in ("", "state", "rows", "assets/app.js", "thumbnails/0"):
        answer = reader.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert reader.get("state").headers["Cache-Control"] == "no-store"
    assert reader.get(f"{ORIGIN}/{TOKEN}", follow_redirects=False).headers["Location"] == f"/{TOKEN}/"


@pytest.mark.parametrize(
    "path", ["/", "/state", "/wrong/state", "//state", f"/{TOKEN[:-1]}/state", f"/{TOKEN}x/", "/é/"]
)
def test_without_the_token_there_is_nothing(reader: Client, path: str) -> None:
    answer = reader.get(f"{ORIGIN}{path}")
    assert answer.status_code == 404
    assert "Cluster" not in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1:9", "127.0.0.1", "192.168.0.2:8000", ""]
)
def test_other_host_names_are_refused(reader: Client, host: str) -> None:
    assert reader.get("state", headers={"Host": host}).status_code == 421


def test_localhost_is_the_same_machine(reader: Client) -> None:
    assert reader.get("state", headers={"Host": "localhost:8000"}).status_code == 200
    assert reader.get("state", headers={"Host": "[::1]:8000"}).status_code == 200


def test_on_all_interfaces_addresses_are_admitted_and_names_are_not(connect: Callable[..., Client], run: Path) -> None:
    client = connect(run, host="0.0.0.0")
    assert client.get("state", headers={"Host": "192.168.0.2:8000"}).status_code == 200
    assert client.get("state", headers={"Host": "[fe80::1]:8000"}).status_code == 200
    assert client.get("state", headers={"Host": "evil.example:8000"}).status_code == 421
    assert client.get("state", headers={"Host": "192.168.0.2:80"}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://127.0.0.1:8000", "http://127.0.0.1:80"])
def test_another_origin_cannot_edit(reader: Client, origin: str) -> None:
    body = {"verb": "rename", "arguments": {"cluster": 0, "name": "x"}, "state": reader.session.snapshot.state}
    assert reader.post("edit", json=body, headers={"Origin": origin}).status_code == 403
    assert reader.session.snapshot.clustering.names[0] == "Cluster 0"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_form_of_another_page_cannot_edit(reader: Client, content_type: str) -> None:
    body = json.dumps({"verb": "undo", "arguments": {}, "state": reader.session.snapshot.state})
    assert reader.post("edit", content=body, headers={"Content-Type": content_type}).status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "assets/../data.py",
        "assets/..%2fdata.py",
        "assets/%2e%2e/data.py",
        "assets/..%5cdata.py",
        "assets/page.html",  # a template
        "assets//etc/passwd",
        "assets/%2fetc%2fpasswd",
        "assets/app.js%00.css",
        "images/../state",
        "images/..%2f..%2frun.json",
        "images/-1",
        "images/60",
        "images/99999999999999999999",
        "images/0.5",
        "thumbnails/00.png",
        "thumbnails/%2e%2e%2frun.json",
        "export/../../run.json",
        "export/run.json",
        "../run.json",
        "%2e%2e/%2e%2e/etc/passwd",
    ],
)
def test_files_cannot_be_asked_for_by_path(reader: Client, path: str) -> None:
    answer = reader.get(f"{ORIGIN}/{TOKEN}/{path}")
    # The reader resolves ../ itself, as browsers do; the rest reaches the server.
    assert answer.status_code == 404 or answer.url.path == f"/{TOKEN}/state"
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_an_image_that_is_replaced_by_a_link_to_another_file_is_not_shown(
    connect: Callable[..., Client], run: Path, photos: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(photos, tmp_path / "photos"))
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (moved / "01.png").unlink()
    (moved / "01.png").symlink_to(secret)
    client = connect(run, moved)
    for folder in ("images", "thumbnails"):
        answer = client.get(f"{folder}/1")
        assert answer.status_code == 404
        assert "secret" not in answer.text


def test_large_bodies_are_refused(connect: Callable[..., Client], run: Path) -> None:
    client = connect(run, max_body=1000)
    assert client.post("ids", json={"rows": [0] * 2000}).status_code == 413

    def chunks() -> Iterator[bytes]:
        yield from [b"[" * 100] * 20

    answer = client.post("ids", content=chunks(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert client.post("ids", json={"rows": [0] * 200}).status_code == 200


def test_deeply_nested_json_is_refused(reader: Client) -> None:
    headers = {"Content-Type": "application/json"}
    assert reader.post("edit", content=b'{"arguments":' + b"[" * 100_000, headers=headers).status_code == 400


def test_markup_in_names_is_escaped(client: Client, run: Path) -> None:
    name = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    client.edit("rename", cluster=0, name=name)
    state = client.get("state")
    assert state.headers["Content-Type"] == "application/json"
    assert state.json()["names"][0] == name
    page = client.get("").text
    assert "<img src=x" not in page
    assert "alert(2)</script>" not in page
    assert "unsafe-inline" not in client.get("").headers["Content-Security-Policy"]


def test_methods_other_than_get_and_post_are_refused(reader: Client) -> None:
    headers = {"Content-Type": "application/json"}
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert reader.request(method, "state", headers=headers).status_code == 405
    assert reader.get("edit").status_code == 405


def test_the_token_is_long_and_random() -> None:
    from cgmcr2.explorer.security import new_token

    assert len(new_token()) >= 43
    assert new_token() != new_token()


def test_a_second_writer_is_refused(reader: Client) -> None:
    with pytest.raises(ValueError, match="Another process is writing to"), Edits(reader.session.run.path):
        pass
