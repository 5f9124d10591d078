import { prefix } from "../../location.js";
import { Copy } from "../../ui/secret.js";

const node = `import { verifyWebhook } from "unified-inference/webhooks";

const header = request.headers["service-signature"];
const result = verifyWebhook({ secret, header, body }); // body: the bytes as they came
if (!result.valid) return response.writeHead(400).end(result.reason);`;

const python = `import hashlib, hmac, time

fields = [field.partition("=")[::2] for field in header.split(",")]
t = dict(fields)["t"]
expected = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
is_valid = abs(time.time() - int(t)) <= 300 and any(
    hmac.compare_digest(expected, value) for name, value in fields if name == "v1"
)`;

/** How a receiver knows that a delivery is ours. */
export function VerifyHelp() {
  return (
    <details class="card">
      <summary>How a receiver verifies a delivery</summary>
      <div class="stack verify-help">
        <p>
          Each delivery carries <code>Service-Signature: t=…,v1=…</code>. A signature is the hex HMAC-SHA256 of{" "}
          <code>t</code>, a period and the raw body, keyed with the whole secret. Accept it when one <code>v1</code> is
          right, compared in constant time, and <code>t</code> is at most 300 seconds away from now.
        </p>
        <Example title="Node.js" code={node} />
        <Example title="Python" code={python} />
        <p>
          <code>uis webhooks listen</code> is a receiver for trying things, and <code>uis webhooks verify</code> checks
          one body. Other languages and all there is to know: <code>docs/webhooks.md</code>; requests of the API:{" "}
          <a href={`${prefix}/docs`}>API documentation</a>.
        </p>
      </div>
    </details>
  );
}

function Example({ title, code }: { readonly title: string; readonly code: string }) {
  return (
    <div class="stack">
      <div class="row spread">
        <h3>{title}</h3>
        <Copy text={code} />
      </div>
      <pre>{code}</pre>
    </div>
  );
}
