import { requestCompleted } from "../../../src/domain/events/events.js";
import { attemptHeaders, signaturesOf } from "../../../src/domain/webhooks/delivery-attempts.js";

const secretOf = (letter: string) => `whsec_${Buffer.alloc(32, letter).toString("base64")}`;
export const [current, previous, foreign] = [secretOf("c"), secretOf("p"), secretOf("f")];
const facts = { requestId: "req_1", model: "модель-é-😀", promptTokens: 1, completionTokens: 2, latencyMs: 3 };
export const { id, body } = requestCompleted(facts, Date.UTC(2026, 10, 21));
export const nowS = () => Math.floor(Date.now() / 1000);

/** A delivery that a receiver gets while its secret is rotated, and whether the receiver must accept it. */
export interface Case {
  readonly what: string;
  readonly secret: string;
  readonly body: string;
  readonly timestampS: number;
  readonly accepted: boolean;
}

export const cases = (): readonly [Case, ...Case[]] => [
  { what: "the new secret", secret: current, body, timestampS: nowS(), accepted: true },
  { what: "the old secret", secret: previous, body, timestampS: nowS(), accepted: true },
  { what: "a minute ago", secret: current, body, timestampS: nowS() - 60, accepted: true },
  { what: "another secret", secret: foreign, body, timestampS: nowS(), accepted: false },
  { what: "a changed body", secret: current, body: body.replace("3", "4"), timestampS: nowS(), accepted: false },
  { what: "301 s ago", secret: current, body, timestampS: nowS() - 301, accepted: false },
];

export const secrets = [current, previous];
export const headersAt = (timestampS: number) =>
  attemptHeaders(
    { eventId: id, deliveryId: "dlv_1", attemptNumber: 2 },
    signaturesOf({ secrets, eventId: id, body, atMs: timestampS * 1000 + 999 }),
  );
export const serviceSignature = ({ timestampS }: Case) => headersAt(timestampS)["service-signature"] ?? "";
export const standardHeaders = ({ timestampS }: Case) => headersAt(timestampS);
export const expected = (all: readonly Case[]) => all.map(({ what, accepted }) => [what, accepted]);
