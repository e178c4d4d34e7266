"""How a server bears load: many clients for a minute, batching against one at a time, health and memory meanwhile.

    python benchmarks/serve_load.py runs/demo --engine torch --out docs/measurements/serve-load-torch.json

Two servers are started one after the other: one that answers together what waits (as always), one whose batches hold
one request (`--batch-tokens 1`). Clients send sentences of the embedded corpus to /translate, each the next one as soon
as it has an answer; beside them one client asks /health twenty times a second. It fails where an answer is none of 200,
429 and 503, where /health takes 100 ms or more at the 99th percentile, where memory drifts by 5 % or more from
the second sixth of the time to the last, or where batching is not three times as fast.
"""

import argparse
import asyncio
import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.street import pairs

HEALTH_PAUSE = 0.05
MEMORY_PAUSE = 0.05  # much shorter than a batch, in which memory rises and falls by a fifth
PAGE, BEGIN, END = Path("docs/serve.md"), "<!-- load: begin -->", "<!-- load: end -->"
COMMAND = "import typer; from regard.cli.serve import serve; typer.run(serve)"


@dataclass
class Load:
    """What one server did."""

    seconds: float
    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """Resident megabytes, twenty times a second."""

    def tree(self) -> dict[str, object]:
        """The figures for JSON."""
        answered = len(self.latencies)
        sixth = max(1, len(self.memory) // 6)
        first, last = statistics.mean(self.memory[sixth : 2 * sixth]), statistics.mean(self.memory[-sixth:])
        return {
            "answers": dict(self.statuses),
            "translations_per_second": round(answered / self.seconds, 2),
            "latency_ms": percentiles(self.latencies),
            "health_ms": percentiles(self.health),
            "memory_mb": {"second_sixth": round(first), "last_sixth": round(last), "drift": round(last / first - 1, 4)},
        }


def percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else seconds * 99
    return {f"p{place}": round(cuts[place - 1] * 1000, 1) for place in (50, 95, 99)}


def main() -> None:
    arguments = parse()
    batched = load(arguments, [], arguments.seconds)
    alone = load(arguments, ["--batch-tokens", "1"], arguments.alone_seconds)
    result = {
        "command": "python benchmarks/serve_load.py " + " ".join(sys.argv[1:]),
        "engine": arguments.engine,
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "batched": batched.tree(),
        "one_at_a_time": alone.tree(),
        "speedup": round(rate(batched) / rate(alone), 2),
        "machine": machine(),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    write_table(arguments.out.parent)
    print(json.dumps(result, indent=1))
    sys.exit("\n".join(failures(result, batched)) or 0)


def write_table(folder: Path) -> None:
    """The table of docs/serve.md, from all measurements that are there."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("serve-load*.json"))]
    head = "| engine | translations/s | one at a time | gain | p99 of /health | drift of memory | answers |"
    rows = [
        f"| {result['engine']} | {result['batched']['translations_per_second']:,.0f} "
        f"| {result['one_at_a_time']['translations_per_second']:,.0f} | {result['speedup']:.1f}× "
        f"| {result['batched']['health_ms']['p99']:.0f} ms | {result['batched']['memory_mb']['drift']:+.1%} "
        f"| {', '.join(f'{count:,} × {status}' for status, count in result['batched']['answers'].items())} |"
        for result in found
    ]
    table = "\n".join([BEGIN, "", head, "|---" * 7 + "|", *rows, "", END])
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(f"{text.partition(BEGIN)[0]}{table}{text.partition(END)[2]}", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a translation run from English")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--alone-seconds", type=float, default=20, help="for the server without batching")
    parser.add_argument("--threads", type=int, default=1, help="threads of the model")
    parser.add_argument("--engine", default="torch", help="auto, torch or ctranslate2")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/serve-load-torch.json"))
    return parser.parse_args()


def load(arguments: argparse.Namespace, options: list[str], seconds: float) -> Load:
    """Starts a server, loads it, and stops it with SIGTERM."""
    words = [sys.executable, "-c", COMMAND, f"run={arguments.run}", "--port", "0", *options]
    words += ["--engine", arguments.engine]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        if address is None:
            sys.exit("the server did not start")
        return asyncio.run(measure(address.group(), server.pid, arguments.clients, seconds))
    finally:
        server.terminate()
        server.wait(60)


async def measure(address: str, pid: int, clients: int, seconds: float) -> Load:
    found, end = Load(seconds), time.monotonic() + seconds
    texts = [english for english, _ in pairs("test", size=2000)]
    work = [client(address, texts[number::clients], end, found) for number in range(clients)]
    await asyncio.gather(*work, asyncio.to_thread(health, address, end, found), memory(pid, end, found))
    return found


async def client(address: str, texts: list[str], end: float, found: Load) -> None:
    """One client on one connection of its own, as plain as can be: the two cores are the server's."""
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    number = 0
    while time.monotonic() < end:
        began = time.monotonic()
        status, wait = await post(reader, writer, {"q": texts[number % len(texts)], "source": "en", "target": "de"})
        found.statuses[status] += 1
        if time.monotonic() > end:  # what was still under way counts for no rate
            break
        if status == "200":
            found.latencies.append(time.monotonic() - began)
        else:
            await asyncio.sleep(wait)
        number += 1
    writer.close()


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[str, str]) -> tuple[str, float]:
    """The status of the answer, and how long the server asks to wait before the next request."""
    body = json.dumps(asked).encode()
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    headers = dict(line.split(": ", 1) for line in answer.split("\r\n")[1:] if line)
    await reader.readexactly(int(headers["content-length"]))
    return answer.split(" ", 2)[1], float(headers.get("retry-after", 1))


def health(address: str, end: float, found: Load) -> None:
    """On a connection and a thread of its own: the load's own loop must not be measured along."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    while time.monotonic() < end:
        began = time.monotonic()
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        found.health.append(time.monotonic() - began)
        time.sleep(HEALTH_PAUSE)


async def memory(pid: int, end: float, found: Load) -> None:
    while time.monotonic() < end:
        status = Path(f"/proc/{pid}/status").read_text()
        found.memory.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024)
        await asyncio.sleep(MEMORY_PAUSE)


def rate(found: Load) -> float:
    return len(found.latencies) / found.seconds


def failures(result: dict, batched: Load) -> list[str]:
    told = result["batched"]
    problems = {
        f"answers other than 200, 429, 503: {told['answers']}": set(batched.statuses) - {"200", "429", "503"},
        f"/health p99 is {told['health_ms']['p99']} ms": told["health_ms"]["p99"] >= 100,
        f"memory drifts by {told['memory_mb']['drift']:.1%}": abs(told["memory_mb"]["drift"]) >= 0.05,
        f"batching is {result['speedup']} times as fast": result["speedup"] < 3,
    }
    return [sentence for sentence, wrong in problems.items() if wrong]


def machine() -> dict[str, object]:
    import torch

    return {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__,
            "python": platform.python_version()}  # fmt: skip


if __name__ == "__main__":
    main()
