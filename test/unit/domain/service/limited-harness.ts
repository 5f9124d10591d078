import { create } from "@bufbuild/protobuf";
import { ChatCompletionParamsSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { Logger } from "../../../../src/domain/call/ports.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";

/** A valid request for the model `m`. */
export const chat = (fields: object = {}) =>
  create(ChatCompletionParamsSchema, {
    model: "m",
    messages: [{ role: Role.USER, content: [{ part: { case: "text", value: "Hi" } }] }],
    ...fields,
  });

/** The error of a promise that must reject. */
export const failure = (promise: unknown): Promise<ServiceError> =>
  Promise.resolve(promise).then(
    () => Promise.reject(new Error("succeeded")),
    (error: unknown) => (error instanceof ServiceError ? error : Promise.reject(error)),
  );

/** A harness whose account has a request limit, so that charges are visible. */
export async function createLimitedHarness(options: { readonly log?: Logger } = {}) {
  const account = { ...unlimited, requestsPerMinute: 10 };
  const rateLimits = { key: unlimited, account, models: new Map() };
  const harness = await createCoreHarness({ engines: [new HandEngine()], rateLimits, ...options });
  const requestsCharged = async (): Promise<number | undefined> => {
    const scope = { owner: { kind: "account", id: "default" }, limits: account } as const;
    return (await harness.ledger.inspect("default", [scope]))[0]?.requests;
  };
  return { ...harness, requestsCharged };
}
