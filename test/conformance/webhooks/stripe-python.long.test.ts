import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { cases, expected, serviceSignature } from "./signed-cases.js";

// Needs python3 with venv, and its package index on the first run.
describe.skipIf(!hasPython)("Service-Signature is verified without changes (WH-15, WH-16)", () => {
  it("by Stripe's PyPI package", { timeout: 300_000 }, async () => {
    const python = await pythonVenv("test/conformance/webhooks/python/requirements.txt");
    const all = cases();
    const child = spawn(python, ["test/conformance/webhooks/python/stripe_check.py"]);
    child.stdin.end(JSON.stringify(all.map((one) => ({ ...one, header: serviceSignature(one) }))));
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(stderr).toBe("");
    expect(all.map(({ what }, i) => [what, (JSON.parse(stdout) as boolean[])[i]])).toEqual(expected(all));
  });
});
