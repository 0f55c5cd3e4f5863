"""Asks over TLS and in clear with HTTPX, and prints what comes of each step: `SECURE CLEAR`."""

import asyncio
import sys

import httpx


def told(answer):
    return answer.http_version, answer.status_code, answer.text


async def pieces():
    for _ in range(100):
        yield b"y" * 10000


async def ask(client, base):
    answers = await asyncio.gather(*(client.get(base + "/said") for _ in range(100)))
    print("at once:", {told(answer) for answer in answers})
    print("upload:", told(await client.post(base + "/length", content=b"x" * 300000)))
    print("upload in pieces:", told(await client.put(base + "/streamed", content=pieces())))
    length = 0
    async with client.stream("GET", base + "/large.bin") as answer:
        async for piece in answer.aiter_bytes():
            length += len(piece)
    print("download:", answer.http_version, length)
    async with client.stream("GET", base + "/large.bin") as answer:
        async for piece in answer.aiter_bytes():
            break
    print("after a download that was given up:", told(await client.get(base + "/said")))
    print("missing:", (await client.get(base + "/missing")).status_code)


async def main(secure, clear):
    async with httpx.AsyncClient(http2=True, verify=False, trust_env=False, timeout=60) as client:
        await ask(client, secure)
    async with httpx.AsyncClient(http1=False, http2=True, trust_env=False, timeout=60) as client:
        await ask(client, clear)


asyncio.run(main(*sys.argv[1:]))
