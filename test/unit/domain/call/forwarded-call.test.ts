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

it("forwarded fields are accepted, unchanged, up to five minutes before and after their time (SEC-37)", () => {
  const text = forwardedText(call, nowMs);
  expect(readForwarded(text, chat, nowMs + 299_000)).toEqual(call);
  expect(readForwarded(text, chat, nowMs - 299_000)).toEqual(call);
  expect(readForwarded(text, chat, nowMs + 301_000)).toBeNull();
  expect(readForwarded(text, chat, nowMs - 301_000)).toBeNull();
});

it("an RPC accepts its own operation as the forwarded one, and the RPC of chats also operations that are translated to chats (SEC-37)", () => {
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
])("text that is not of forwardedText is ignored: %s", (text) => {
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
