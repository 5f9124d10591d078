import { describe, expect, it } from "vitest";
import { checkUpstreamUrl, kindOfHost } from "../../../../src/domain/engine/upstream-url.js";
import { hostileUrls } from "../../../support/receivers/hostile-urls.js";

const refusalOf = (text: string): string | null => {
  const checked = checkUpstreamUrl(text);
  return "refusal" in checked ? checked.refusal : null;
};

const closed = hostileUrls(443).filter(({ why }) => /^(link-local|metadata)/.test(why));

describe("checkUpstreamUrl", () => {
  it.each([
    ["http://10.0.0.5:8000/v1/", "http://10.0.0.5:8000/v1"],
    ["https://api.openai.com/v1", "https://api.openai.com/v1"],
    ["http://localhost:11434/v1//", "http://localhost:11434/v1"],
    ["http://[::1]:8000/v1", "http://[::1]:8000/v1"],
    ["https://name.openai.azure.com/", "https://name.openai.azure.com"],
    [
      "https://generativelanguage.googleapis.com/v1beta/openai/",
      "https://generativelanguage.googleapis.com/v1beta/openai",
    ],
  ])("accepts %s as %s", (text, url) => {
    expect(checkUpstreamUrl(text)).toEqual({ url });
  });

  it("is tested with more than 15 link-local and metadata addresses", () => expect(closed.length).toBeGreaterThan(15));

  it.each(closed)("never accepts $url: $why (SEC-17)", ({ url }) => {
    expect(refusalOf(url)).toBe(
      "is a link-local or metadata address, which is never called: set the address of the inference server",
    );
  });

  it.each([
    "http://[::ffff:169.254.169.254]/v1",
    "http://[64:ff9b::a9fe:a9fe]/v1",
    "http://[2002:a9fe:a9fe::]/v1",
    "http://x.metadata.google.internal./v1",
  ])("never accepts %s, which embeds a link-local or metadata address (SEC-17)", (url) => {
    expect(refusalOf(url)).toContain("metadata address");
  });

  it.each([
    ["vllm:8000", "must begin with http:// or https://"],
    ["10.0.0.5", "must be a URL such as http://10.0.0.5:8000/v1"],
    ["ftp://h/v1", "must begin with http:// or https://"],
    ["http://user:pass@h/v1", "must not have a user name or a password: put the key into a file and set key_file"],
    ["http://h/v1?key=1", "must not have a query or a fragment: set only the base URL; for Azure, set api_version"],
    ["http://h/v1#a", "must not have a query or a fragment: set only the base URL; for Azure, set api_version"],
    [
      "http://h/v1/chat/completions",
      "must be the base URL: remove the path of the operation, so that it ends as in http://10.0.0.5:8000/v1",
    ],
    ["http://h /v1", "must not have a space, a backslash or a control character"],
    [`http://h/${"a".repeat(2_048)}`, "must have at most 2,048 characters"],
  ])("rejects %s because it %s", (text, refusal) => {
    expect(refusalOf(text)).toBe(refusal);
  });
});

describe("kindOfHost", () => {
  it.each([
    ["https://api.openai.com/v1", "openai"],
    ["https://api.anthropic.com/v1", "anthropic"],
    ["https://name.openai.azure.com", "azure"],
    ["https://name.cognitiveservices.azure.com", "azure"],
    ["https://api.openai.com.example.org/v1", null],
    ["http://127.0.0.1:8000/v1", null],
  ])("gives for %s: %s", (url, kind) => expect(kindOfHost(url)).toBe(kind));
});
