import type { Completion } from "../../../gen/unified/inference/v1/completion_pb.js";
import { jsonString } from "../../lib/json-string.js";
import { completionChoiceJson } from "./completion-frames.js";
import { usageJson } from "./write-usage.js";

/** The JSON of a whole text completion (CMPL-*). */
export function completionJson(completion: Completion): string {
  const { usage, systemFingerprint: fingerprint } = completion;
  return (
    `{"id":${jsonString(completion.id)},"object":"text_completion","created":${completion.created}` +
    `,"model":${jsonString(completion.model)},"choices":[${completion.choices.map(completionChoiceJson).join(",")}]` +
    (usage === undefined ? "" : `,"usage":${usageJson(usage)}`) +
    (fingerprint === "" ? "" : `,"system_fingerprint":${jsonString(fingerprint)}`) +
    "}"
  );
}
