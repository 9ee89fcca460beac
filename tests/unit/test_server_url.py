"""URLs of one server, of Sentinels and of a cluster, taken apart; what is wrong is said without showing it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from compactor import ConfigurationError
from compactor.server_url import Kind, kind_of, read_url
from compactor.settings import read_settings
from compactor.store import AsyncStore, Store


@pytest.mark.parametrize("url", ["redis://h:1/2", "rediss://:p@h", "unix:///run/redis.sock", "amqp://h//", "", "h:1"])
def test_other_urls_are_handed_on_as_they_are(url: str) -> None:
    assert kind_of(url) is Kind.SERVER
    assert read_url(url).whole == url


def test_a_cluster_by_some_of_its_nodes() -> None:
    url = read_url("rediss+cluster://me:p%40ss,w@a:7000,b,[::1]:7002/0?ssl_ca_certs=/etc/ca.pem")
    assert url.kind is Kind.CLUSTER
    assert url.is_encrypted
    assert url.addresses == (("a", 7000), ("b", 6379), ("::1", 7002))
    assert url.of_node(("::1", 7002)) == "rediss://me:p%40ss,w@[::1]:7002/0?ssl_ca_certs=%2Fetc%2Fca.pem"


def test_a_primary_by_its_sentinels() -> None:
    url = read_url("redis+sentinel://u:p@s1,s2:1/my%20master/3?sentinel_password=q%2F@&socket_keepalive=yes")
    assert url.kind is Kind.SENTINEL
    assert url.addresses == (("s1", 26379), ("s2", 1))
    assert (url.service, url.database) == ("my master", "3")
    assert url.of_node(("s1", 26379)) == "redis://u:p@s1:26379/3?socket_keepalive=yes"
    assert url.of_sentinel(("s2", 1)) == "redis://:q%2F%40@s2:1/0?socket_keepalive=yes"


@pytest.mark.parametrize("url", ["redis+sentinel://s/m", "redis+sentinel://s/m/", "redis+sentinel://s/m/0"])
def test_the_database_is_0_unless_named(url: str) -> None:
    assert read_url(url).of_sentinel(("s", 1)) == "redis://s:1/0"
    assert read_url(url).database == "0"


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://sesame@",
        "redis+cluster://a,,b",
        "redis+cluster://a:sesame",
        "redis+cluster://a:0",
        "redis+cluster://a:70000",
        "redis+cluster://a/1",
        "redis+cluster://a/sesame",
        "redis+cluster://a?sentinel_password=sesame",
        "redis+cluster://a?db=1",
        "redis+sentinel://a",
        "redis+sentinel://a/",
        "redis+sentinel:///m",
        "redis+sentinel://a/m/x",
        "redis+sentinel://a/m/0/1",
        "redis+sentinel://:sesame@a:x/m",
        "redis+sentinel://[::1/m",
    ],
)
def test_what_cannot_be_meant_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected redis\+.*for example redis\+") as caught:
        read_url(url)
    assert "sesame" not in str(caught.value)


@given(
    st.sampled_from(["redis+cluster://", "rediss+cluster://", "redis+sentinel://", "rediss+sentinel://"]),
    st.text(st.sampled_from("ab01:@,/?[]%&=+ ;\x00\n\u2100é"), max_size=30) | st.text(max_size=20),
)
@examples(max_examples=40)
@example("redis+sentinel://", "h/s?sentinel_password=%")
@example("redis+cluster://", "a\u2100b")
@example("redis+cluster://", "h?db=3")
@example("redis+cluster://", "h?socket_timeout=x")
def test_whatever_stands_in_a_url_makes_a_store_or_a_configuration_error(scheme: str, rest: str) -> None:
    for make in (Store, AsyncStore):
        with contextlib.suppress(ConfigurationError):
            make(read_settings(redis_url=scheme + rest, broker_url="redis://h/0"))
