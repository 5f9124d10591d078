import { setImmediate as nextTurn } from "node:timers/promises";
import type { ServiceLimits } from "../../contract/limits.js";
import { checkBounds, checkedBody, decode, type JsonObject, parse, withoutMark } from "./json-object.js";

/**
 * `parseJsonBody` for a large body: the event loop runs other work between the steps, each of which takes up to about 10 ms
 * for 10 MiB, because the bounds keep the number of values small. A worker thread would save no time: what it sends back has
 * to be built once more from the copy.
 */
export async function parseLargeJsonBody(
  body: Buffer,
  limits: Pick<ServiceLimits, "jsonDepthMax" | "jsonTokensMax">,
): Promise<JsonObject> {
  const text = decode(withoutMark(body));
  await nextTurn();
  checkBounds(text, limits);
  await nextTurn();
  const value = parse(text);
  await nextTurn();
  const object = checkedBody(value, text);
  await nextTurn();
  return object;
}
