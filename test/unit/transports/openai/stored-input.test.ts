import { expect, it } from "vitest";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { storedInput } from "../../../../src/transports/openai/responses/stored-responses.js";

const ids = createRandomIds();
const idOf = (prefix: string) => expect.stringMatching(`^${prefix}_[0-9A-Za-z]{24}$`);

it("an input of one text is stored as a message of the user (RSP-22)", () => {
  expect(storedInput("Hi", ids)).toEqual([
    { id: idOf("msg"), type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] },
  ]);
});

it("input items are stored unchanged, except that type, id and parts are added where they are missing (RSP-22)", () => {
  const parts = [{ type: "input_image", image_url: "data:image/png;base64,AA==" }];
  const output = [{ type: "input_text", text: "sunny" }];
  const input = [
    { role: "developer", content: "Be brief." },
    { type: "message", id: "msg_own", role: "user", content: parts, unknown: { kept: [1] } },
    { id: null, role: "assistant", content: "Yes?", status: "completed" },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output },
    { type: "reasoning", id: "", summary: [], content: [] },
  ];
  expect(storedInput(input, ids)).toEqual([
    { id: idOf("msg"), type: "message", role: "developer", content: [{ type: "input_text", text: "Be brief." }] },
    input[1],
    {
      id: idOf("msg"),
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Yes?", annotations: [] }],
    },
    { ...input[3], id: idOf("fc") },
    { ...input[4], id: idOf("fco") },
    { ...input[5], id: idOf("rs") },
  ]);
});
