"""How each kind of broker is addressed, and what its queue is."""

from __future__ import annotations

import pytest

from compactor.dispatch import broker_conf, once, task_queue
from compactor.settings import read_settings


def test_a_redis_is_addressed_as_it_was_given() -> None:
    conf = broker_conf(read_settings(broker_url="rediss://:p@h:1/2?ssl_ca_certs=/ca.pem", namespace="n"))
    assert conf["broker_url"] == "rediss://:p@h:1/2?ssl_ca_certs=/ca.pem"
    assert conf["broker_transport_options"]["global_keyprefix"] == "n:"
    assert "broker_read_url" not in conf


def test_sentinels_are_addressed_in_the_form_that_kombu_knows() -> None:
    url = "rediss+sentinel://u:p%40@s1,s2:2/svc/3?sentinel_password=w%20p&ssl_ca_certs=/ca.pem"
    conf = broker_conf(read_settings(redis_url=url))
    assert (
        conf["broker_read_url"] == conf["broker_write_url"] == ("sentinel://u:p%40@s1:26379/3;sentinel://u:p%40@s2:2/3")
    )
    assert conf["broker_use_ssl"] == {"ssl_ca_certs": "/ca.pem"}
    options = conf["broker_transport_options"]
    assert options["master_name"] == "svc"
    watched = options["sentinel_kwargs"]
    assert (watched["password"], watched["ssl"], watched["ssl_ca_certs"]) == ("w p", True, "/ca.pem")


@pytest.mark.parametrize("scheme", ["amqp", "amqps", "pyamqp"])
def test_a_rabbitmq_gets_a_quorum_queue_and_confirmed_publishes(scheme: str) -> None:
    settings = read_settings(broker_url=f"{scheme}://h//", namespace="n")
    queue = task_queue(settings)
    assert (queue.name, queue.routing_key, queue.exchange.type) == ("compaction.n", "compaction.n", "topic")
    assert queue.queue_arguments == {"x-queue-type": "quorum"}
    assert broker_conf(settings)["broker_transport_options"] == {"confirm_publish": True}
    assert once(settings, 2.0) == {"max_retries": 0, "read_timeout": 2.0, "write_timeout": 2.0}


def test_a_queue_on_redis_has_no_exchange_of_its_own() -> None:
    queue = task_queue(read_settings())
    assert (queue.name, queue.exchange.name, queue.queue_arguments) == ("compaction", "", None)
    assert once(read_settings(), 2.0) == {"max_retries": 0, "socket_timeout": 2.0}
