import type { ChatCompletionParams } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { OriginalRequest } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { type ErrorCode, errors } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { StreamAnswer } from "../call/call-context.js";
import { ServiceError } from "../call/service-error.js";
import { type NativeApi, nativeApis } from "../engine/upstream.js";
import type { NativeOriginal } from "../inference/native-chat.js";

/**
 * Conversions of the original request of another API, which a gateway sends to a core in addition to its translation to a
 * chat request.
 */

/** The original request as fields of a message. */
export function originalFields({ api, fieldsJson, headers: sent, refusal }: NativeOriginal) {
  const { code, message, param } = refusal ?? {};
  return {
    api,
    fieldsJson: { ...fieldsJson() },
    headers: { ...sent },
    ...(code === undefined ? {} : { refusal: { code, message: message ?? "", param: param ?? "" } }),
  };
}

/** Reads the original request from a message; undefined if it has none. */
export function readOriginal(
  params: ChatCompletionParams | undefined,
  original: OriginalRequest | undefined,
): NativeOriginal | undefined {
  const api = original?.api ?? "";
  if (original === undefined || !isNativeApi(api)) return undefined;
  const { fieldsJson, headers: sent, refusal } = original;
  return {
    api,
    model: params?.model ?? "",
    fieldsJson: () => fieldsJson,
    headers: sent,
    refusal: refusal === undefined ? null : refusalOf(refusal),
    isOffered: null,
  };
}

function refusalOf({ code, message, param }: NonNullable<OriginalRequest["refusal"]>): ServiceError {
  const known = code in errors ? (code as ErrorCode) : "invalid_value";
  return new ServiceError(known, message, param === "" ? {} : { param });
}

function isNativeApi(text: string): text is NativeApi {
  return nativeApis.some((api) => api === text);
}

/** Data that another API (such as Anthropic's) sends to its client before the first chunk of a translated request. */
export interface TranslatedHead {
  /** Id of the answer; empty for one that is not streamed. */
  readonly id: string;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** Whether a deployment of the model has the API of the request. */
  readonly isOffered: boolean;
}

type Answered = Partial<Pick<StreamAnswer<unknown>, "id" | "promptUsage">> & {
  readonly native: NativeOriginal | undefined;
};

/** The head of the answer to a translated request as metadata, names and values alternately. */
export function translatedHead({ id = "", promptUsage, native }: Answered): readonly string[] {
  const { promptTokens = 0, cachedTokens = 0 } = promptUsage?.() ?? {};
  const head: TranslatedHead = { id, promptTokens, cachedTokens, isOffered: native?.isOffered === true };
  return [headers.answer, JSON.stringify(head)];
}

/** Reads the metadata of `translatedHead`; null for anything else. */
export function readTranslatedHead(text: string | undefined): TranslatedHead | null {
  if (text === undefined) return null;
  const { id, promptTokens, cachedTokens, isOffered } = JSON.parse(text) as TranslatedHead;
  return { id, promptTokens, cachedTokens, isOffered };
}
