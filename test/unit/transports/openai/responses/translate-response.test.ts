import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../../src/contract/limits.js";
import { parseJsonBody } from "../../../../../src/transports/http/json-object.js";
import { translateResponse } from "../../../../../src/transports/openai/responses/read-response.js";

const bodyOf = (fields: object) =>
  parseJsonBody(Buffer.from(JSON.stringify({ model: "m", input: "Hello", ...fields })), defaultLimits);
/** Whether an upstream may get the original of the request. */
const isOriginal = (fields: object, keepsResponses: boolean): boolean =>
  translateResponse(bodyOf(fields), keepsResponses ? [] : null).native !== undefined;

describe("requests of /v1/responses for upstreams that have this API", () => {
  it("are kept unchanged, unless this service stores the response or it continues a stored one", () => {
    expect([{}, { store: true }, { store: false }].map((fields) => isOriginal(fields, false))).toEqual([
      true,
      true,
      true,
    ]);
    expect([{}, { store: true }, { store: false }].map((fields) => isOriginal(fields, true))).toEqual([
      false,
      false,
      true,
    ]);
    expect(isOriginal({ store: false, previous_response_id: "resp_1" }, true)).toBe(false);
  });

  it("keep all fields except model and stream, and the refusal of fields that chat cannot express", () => {
    const { native } = translateResponse(
      bodyOf({ stream: true, tools: [{ type: "computer_use" }], new_field: [1] }),
      null,
    );
    expect(native?.fieldsJson()).toEqual({
      input: '"Hello"',
      tools: '[{"type":"computer_use"}]',
      new_field: "[1]",
    });
    expect(native?.refusal).toMatchObject({ param: "tools[0].type" });
    expect(native?.model).toBe("m");
  });

  it("are refused with `background`, because no limit would apply to a background response", () => {
    expect(() => translateResponse(bodyOf({ background: true }), null)).toThrow("background");
  });
});
