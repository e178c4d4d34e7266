"""What a server is told, and what it allows its clients."""

from ipaddress import ip_address

from pydantic import Field, model_validator

from regard.config import Config, refuse

# What one request may ask for; these stand in the OpenAPI document.
CHARACTERS = 10_000
TEXTS = 64
ALTERNATIVES = 10
CHOICES = 16
TOKENS_TO_WRITE = 1024
PROMPT_TOKENS = 2048
LOOKED_AT_TOKENS = 512
IMAGE_CHARACTERS = 900_000
IMAGE_PIXELS = 1 << 22
STOPS = 4
LIKELIEST = 5


class ServeConfig(Config):
    """Where a server listens and how much it takes on."""

    host: str = "127.0.0.1"
    """Address to listen at; any but a loopback address needs an `api_key`."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen at; 0 takes a free one."""
    api_key: str | None = Field(None, min_length=8)
    """What clients must know; every route but /health then asks for it."""
    queue: int = Field(256, gt=0)
    """Requests that may wait for each run; beyond them the answer is 503."""
    tokens_per_batch: int = Field(4096, gt=0)
    """Most tokens that are answered together; one request alone may have more."""
    body_bytes: int = Field(1_000_000, gt=0)
    """Largest body of a request."""
    read_seconds: float = Field(10.0, gt=0, le=60)
    """A client that takes longer to send its headers, or its body, is cut off."""
    send_seconds: float = Field(20.0, gt=0)
    """A client that does not take what it asked for is cut off after this."""
    stop_seconds: float = Field(10.0, gt=0)
    """How long requests may still be answered once the server is told to stop."""
    connections: int = Field(1024, gt=0)
    """Connections at the same time; others wait to be accepted."""

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @model_validator(mode="after")
    def _key_beyond_this_machine(self) -> "ServeConfig":
        if not self.local and self.api_key is None:
            raise refuse(
                "api_key", f"others can reach {self.host}; give a key (--api-key or REGARD_API_KEY), or use 127.0.0.1"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
