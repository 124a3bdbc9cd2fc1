"""The client: a server's calls from Python, awaited or not."""

from driftq.client.async_client import AsyncClient
from driftq.client.consumer import AsyncConsumer
from driftq.client.delivery import AsyncDelivery, Delivery
from driftq.client.event_store import EventReceipt, EventStore
from driftq.client.incoming import Receipt, RecordedMessage
from driftq.client.options import ClientOptions
from driftq.client.outgoing import EnvelopeFields
from driftq.client.sync_client import Client
from driftq.client.sync_consumer import Consumer

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "Client",
    "ClientOptions",
    "Consumer",
    "Delivery",
    "EnvelopeFields",
    "EventReceipt",
    "EventStore",
    "Receipt",
    "RecordedMessage",
]
