import { Copy } from "../../ui/secret.js";

/** The body that every attempt posts, and how it is signed. */
export function Payload({ payload }: { readonly payload: string }) {
  return (
    <section class="stack" aria-labelledby="payload">
      <div class="row spread">
        <h3 id="payload">Payload</h3>
        {payload !== "" && <Copy text={payload} />}
      </div>
      {payload === "" ? (
        <p class="faint">
          It was removed after its time: 24 hours after it arrived, 30 days after it failed. It cannot be sent any more.
        </p>
      ) : (
        <pre>{payload}</pre>
      )}
      <details>
        <summary>How it is signed</summary>
        <div class="stack delivery-signature">
          <p>
            Every attempt posts exactly these bytes and carries <code>Service-Signature: t=…,v1=…</code>: <code>t</code>{" "}
            is the time of the attempt in Unix seconds, <code>v1</code> the hex HMAC-SHA256 of <code>t</code>, a period
            and these bytes, keyed with the endpoint's secret. While a secret is rotated there is one <code>v1</code>{" "}
            for each.
          </p>
          <p>
            To check one that a receiver refused, with the bytes and the header as they came:{" "}
            <code>uis webhooks verify --secret whsec_… --header "t=…,v1=…" &lt; body</code>. It names the reason: a time
            more than 300 seconds away, a changed byte, or another secret.
          </p>
        </div>
      </details>
    </section>
  );
}
