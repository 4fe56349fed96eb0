"""A client of a small site."""

import pytest
from starlette.testclient import TestClient

from shortlist.web.app import make_app
from tests.web.site import BASE, made


@pytest.fixture
def site(tmp_path):
    with made(tmp_path) as site:
        yield site


@pytest.fixture
def client(site):
    return TestClient(make_app(site), base_url=BASE, raise_server_exceptions=False)
