"""Asks Stripe's library about deliveries: JSON `[{secret, header, body}]` on stdin, a JSON list of booleans on stdout."""

import json
import sys

import stripe


def accepts(case: dict) -> bool:
    try:
        event = stripe.Webhook.construct_event(case["body"].encode(), case["header"], case["secret"])
    except stripe.SignatureVerificationError:
        return False
    return event["id"] == json.loads(case["body"])["id"]


print(json.dumps([accepts(case) for case in json.load(sys.stdin)]))
