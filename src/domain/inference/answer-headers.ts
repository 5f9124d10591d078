import { headers } from "../../contract/headers.js";
import { rememberLast } from "../../lib/json-string.js";
import type { AnswerHead, AnswerRoute } from "../call/call-context.js";
import { limitHeaders } from "../metering/limit-response.js";

/** Headers or metadata of an answer: its route and the caller's rate limits. */
export function answerHeaders(head: AnswerHead): Readonly<Record<string, string>> {
  return { ...routeHeaders(head), ...limitHeaders(head) };
}

/** Headers, metadata or trailers that name the deployment and, if it is not the requested one, the model. */
export function routeHeaders({ deployment, attempts, fallbackModel }: AnswerRoute): Readonly<Record<string, string>> {
  const route = { [headers.deployment]: headerText(deployment), [headers.attempts]: String(attempts) };
  return fallbackModel === null ? route : { ...route, [headers.answeringModel]: headerText(fallbackModel) };
}

const visibleAscii = /^[\x21-\x7e]*$/;

/** An id of an upstream may have characters that headers cannot carry: such an id is percent-encoded. */
const headerText = rememberLast((id: string) =>
  visibleAscii.test(id) ? id : encodeURI(id.replace(/\p{Surrogate}/gu, "\u{fffd}")),
);
