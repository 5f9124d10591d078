import { describe, expect, it } from "vitest";
import { readyText } from "../../../../src/app/commands/ready-text.js";
import { configSchema } from "../../../../src/app/config/schema.js";
import type { Service } from "../../../../src/app/service.js";

/** As much of a service as the text tells of. */
function serviceWith(settings: object, secret: string | null = "the-secret"): Service {
  const told = {
    config: configSchema.parse(settings),
    addresses: { http: "http://127.0.0.1:8080", grpc: "127.0.0.1:50051", ops: "http://127.0.0.1:9464" },
    firstKey: secret === null ? null : { secret },
  };
  return told as unknown as Service;
}

const scripted = { engine: "scripted" };

describe("readyText", () => {
  it("takes the first model that can chat for its curl line", () => {
    const models = [
      { id: "vectors", ...scripted, scripted: { dimensions: 4 } },
      { id: "completes", ...scripted, capabilities: ["completions"] },
      { id: "org/chat", ...scripted },
    ];
    const text = readyText(serviceWith({ models }));
    expect(text).toContain('"model":"org/chat"');
    expect(text).toContain("Bearer the-secret");
  });

  it("shows how to configure a model where none can chat", () => {
    expect(readyText(serviceWith({}))).toContain("engine: scripted");
    expect(readyText(serviceWith({}))).not.toContain("curl");
  });

  it("shows the key on the first start only", () => {
    const models = [{ id: "m", ...scripted }];
    expect(readyText(serviceWith({ models }))).toContain("shown this once");
    expect(readyText(serviceWith({ models }, null))).toContain("$UIS_API_KEY");
  });

  it("makes the curl line trust the configured certificate", () => {
    const tls = { cert_file: "it's.pem", key_file: "k.pem" };
    expect(readyText(serviceWith({ models: [{ id: "m", ...scripted }], server: { tls } }))).toContain(
      "curl --cacert 'it'\\''s.pem' ",
    );
  });
});
