import type { IncomingMessage } from "node:http";
import { quote } from "../../domain/call/field-checks.js";
import { ServiceError } from "../../domain/call/service-error.js";

/** `application/json` or any type that ends in `+json`, with any parameters. */
const json = /^(?:application\/json|[\w!#$&^.+-]+\/[\w!#$&^.+-]+\+json)[ \t]*(?:;[^,]*)?$/i;

/** Throws ServiceError `unsupported_media_type` unless the request says that its body is plain JSON (GEN-6, SEC-5). */
export function checkMediaType(req: IncomingMessage): void {
  const type = req.headers["content-type"];
  if (type !== "application/json" && (type === undefined || !json.test(type))) {
    throw new ServiceError(
      "unsupported_media_type",
      `The Content-Type must be application/json, but it is ${shown(type)}. With curl, add -H 'Content-Type: application/json'.`,
    );
  }
  const encoding = req.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new ServiceError(
      "unsupported_media_type",
      `The Content-Encoding of a request must be identity, but it is ${shown(encoding)}.`,
    );
  }
}

function shown(value: string | undefined): string {
  return value === undefined ? "missing" : quote(value);
}
