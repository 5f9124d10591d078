"""Runs the documented snippet on vectors: a line `secret,header,body,now` each, the first three in hex."""

import sys

from webhook import verify


def text(digits: str) -> str:
    return bytes.fromhex(digits).decode()


for line in sys.stdin:
    secret, header, body, now = line.rstrip("\n").split(",")
    valid = verify(text(secret), text(header), bytes.fromhex(body), int(now))
    print("true" if valid else "false")
