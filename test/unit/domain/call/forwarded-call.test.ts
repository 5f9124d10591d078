import { expect, it } from "vitest";
import { forwardedText, readForwarded } from "../../../../src/domain/call/forwarded-call.js";
import { readSignedText, signText } from "../../../../src/lib/crypto.js";

const call = {
  requestId: `req_${"0".repeat(32)}`,
  operation: "create_response",
  transport: "openai",
  address: "192.0.2.1",
  sessionToken: null,
} as const;
const nowMs = 1_800_000_000_000;
const chat = "create_chat_completion";

it("forwarded fields are read as they were sent, within five minutes (SEC-37)", () => {
  const text = forwardedText(call, nowMs);
  expect(readForwarded(text, chat, nowMs + 299_000)).toEqual(call);
  expect(readForwarded(text, chat, nowMs - 299_000)).toEqual(call);
  expect(readForwarded(text, chat, nowMs + 301_000)).toBeNull();
  expect(readForwarded(text, chat, nowMs - 301_000)).toBeNull();
});

it("an RPC serves its own operation and, for chats, those that are translated to them (SEC-37)", () => {
  const text = (operation: "create_response" | "create_message" | "get_system" | "create_embeddings") =>
    forwardedText({ ...call, operation }, nowMs);
  expect(readForwarded(text("create_message"), chat, nowMs)?.operation).toBe("create_message");
  expect(readForwarded(text("create_embeddings"), "create_embeddings", nowMs)).not.toBeNull();
  expect(readForwarded(text("create_response"), "create_embeddings", nowMs)).toBeNull();
  expect(readForwarded(text("get_system"), chat, nowMs)).toBeNull();
});

it.each([
  "",
  "{}",
  "[]",
  JSON.stringify([nowMs, "req_1", chat, "openai", "", null]),
  JSON.stringify([nowMs, call.requestId, chat, "smtp", "", null]),
  JSON.stringify([nowMs, call.requestId, chat, "openai", "a\nb", null]),
  JSON.stringify([nowMs, call.requestId, chat, "openai", "", 5]),
])("other text is ignored: %s", (text) => {
  expect(readForwarded(text, chat, nowMs)).toBeNull();
});

it("a signature covers the text and its context (SEC-37)", () => {
  const signed = signText("a-secret", "text", "context");
  expect(readSignedText("a-secret", signed, "context")).toBe("text");
  expect(readSignedText("a-secret", signed, "another")).toBeNull();
  expect(readSignedText("b-secret", signed, "context")).toBeNull();
  expect(
    readSignedText(
      "a-secret",
      signText("a-secret", "other", "context").replace(/\..*/, signed.replace(/.*\./, ".")),
      "context",
    ),
  ).toBeNull();
  expect(readSignedText("a-secret", signText(null, "text", "context"), "context")).toBeNull();
});
