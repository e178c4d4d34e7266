"""Settings of a server, and limits of a request."""

from ipaddress import ip_address

from pydantic import Field, model_validator

from regard.config import Config, refuse

# Limits of one request; they are part of the OpenAPI document.
CHARACTERS = 10_000
TEXTS = 64
ALTERNATIVES = 10
CHOICES = 16
MAX_TOKENS = 1024
PROMPT_TOKENS = 2048
TRACED_TOKENS = 512
IMAGE_CHARACTERS = 900_000
IMAGE_PIXELS = 1 << 22
STOPS = 4
SENTENCES_AT_ONCE = 64
FILES_KEPT, FILE_SECONDS = 64, 1800
TOP_LOGPROBS = 5


class ServeConfig(Config):
    """Address and limits of a server."""

    host: str = "127.0.0.1"
    """Address to listen at; any but a loopback address needs an `api_key`."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen at; 0 takes a free one."""
    api_key: str | None = Field(None, min_length=8)
    """Key that clients must send to every route but /health."""
    queue: int = Field(256, gt=0)
    """Length of each run's queue; beyond it requests get 503."""
    tokens_per_batch: int = Field(4096, gt=0)
    """Most tokens of a batch; one request alone may have more."""
    body_bytes: int = Field(1_000_000, gt=0)
    """Largest body of a request."""
    read_seconds: float = Field(10.0, gt=0, le=60)
    """Time limit for a client to send its headers, and its body."""
    send_seconds: float = Field(20.0, gt=0)
    """Time limit for a client to receive a part of its response."""
    stop_seconds: float = Field(10.0, gt=0)
    """Time that running requests have when the server stops."""
    connections: int = Field(1024, gt=0)
    """Most open connections; others wait to be accepted."""

    @property
    def local(self) -> bool:
        return is_loopback(self.host)

    @model_validator(mode="after")
    def _key_beyond_this_machine(self) -> "ServeConfig":
        if not self.local and self.api_key is None:
            raise refuse(
                "api_key", f"others can reach {self.host}; give a key (--api-key or REGARD_API_KEY), or use 127.0.0.1"
            )
        return self


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
