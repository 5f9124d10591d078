import { describe, expect, it } from "vitest";
import { configSchema } from "../../../../src/app/config/schema.js";
import { commandName, nextStepText, readyText } from "../../../../src/app/serve/start-text.js";
import type { Service } from "../../../../src/app/service/service.js";

interface Listed {
  readonly id: string;
  readonly capabilities?: readonly string[];
  readonly hasFailed?: boolean;
}

/** The parts of a service that the text contains. */
function serviceWith(
  models: readonly Listed[],
  settings: object = {},
  secret: string | null = "the-secret",
  hasPassword = false,
): Service {
  const all = models.map((model) => ({ capabilities: ["chat"], hasFailed: false, ...model }));
  const told = {
    config: configSchema.parse(settings),
    parts: { catalog: { all: () => all }, state: { kind: "embedded" } },
    addresses: { http: "http://127.0.0.1:8080", grpc: "127.0.0.1:50051", ops: "http://127.0.0.1:9464" },
    firstKey: secret === null ? null : { secret },
    dashboardPath: secret === null ? "/dashboard/" : "/dashboard/setup#token=one-time",
    hasPassword,
  };
  return told as unknown as Service;
}

describe("the text printed at start", () => {
  it("uses the first chat model in its curl line", () => {
    const text = nextStepText(
      serviceWith([
        { id: "vectors", capabilities: ["embeddings"] },
        { id: "completes", capabilities: ["completions"] },
        { id: "not-to-be-had", hasFailed: true },
        { id: "org/chat" },
      ]),
    );
    expect(text).toContain('"model":"org/chat"');
    expect(text).toContain("Bearer the-secret");
  });

  it("treats a loading model as a chat model", () => {
    expect(nextStepText(serviceWith([{ id: "loads", capabilities: [] }]))).toContain('"model":"loads"');
  });

  it("shows three ways to get a model if there is no chat model", () => {
    const text = nextStepText(serviceWith([]));
    for (const way of ["uis models pull", "uis models import", "uis.yaml"]) expect(text).toContain(way);
    expect(text).not.toContain("curl");
  });

  it("shows how to check upstreams if they list no chat model", () => {
    const upstreams = { up: { url: "http://127.0.0.1:11434/v1", kind: "ollama" } };
    const text = nextStepText(serviceWith([], { upstreams }));
    expect(text).toContain("\n  uis upstreams check http://127.0.0.1:11434/v1 --kind ollama\n");
    expect(text).not.toContain("uis models pull");
  });

  it("shows the key only at the first start, before the link that sets the password", () => {
    const text = readyText(serviceWith([{ id: "m" }]));
    expect(text).toContain("the-secret shown once");
    expect(text.indexOf("the-secret")).toBeLessThan(text.indexOf("/dashboard/"));
    expect(nextStepText(serviceWith([{ id: "m" }], {}, null))).toContain("$UIS_API_KEY");
  });

  it("shows the set-up link, and how to create another one, only at the first start (KEY-20)", () => {
    const first = readyText(serviceWith([{ id: "m" }]));
    expect(first).toContain("http://127.0.0.1:8080/dashboard/setup#token=one-time\n");
    expect(first).toContain("uis admin link");
    const later = readyText(serviceWith([{ id: "m" }], {}, null, true));
    expect(later).toContain("http://127.0.0.1:8080/dashboard/\n");
    expect(later).not.toContain("uis admin link");
  });

  it("shows how to set a password at every start until one is set", () => {
    const text = readyText(serviceWith([{ id: "m" }], {}, null, false));
    expect(text).toContain("no password is set yet: uis admin link");
    const byNpm = readyText(serviceWith([{ id: "m" }], {}, null, false), { uis: commandName({ npm_execpath: "npm" }) });
    expect(byNpm).toContain("no password is set yet: npx uis admin link");
  });

  it("says where the state is", () => {
    expect(readyText(serviceWith([]))).toMatch(/\n {2}Data {7}\S+ \(with the state\)\n/);
  });

  it("has a curl line that trusts the configured certificate", () => {
    const tls = { cert_file: "it's.pem", key_file: "k.pem" };
    expect(nextStepText(serviceWith([{ id: "m" }], { server: { tls } }))).toContain("curl -N --cacert 'it'\\''s.pem' ");
  });

  it("names inference servers of this machine with the command that shows how to add them", () => {
    const url = "http://127.0.0.1:11434/v1";
    const text = nextStepText(serviceWith([{ id: "m" }]), [{ name: "Ollama", url }]);
    expect(text).toContain("Found on this machine: Ollama.");
    expect(text).toContain(`\n  uis upstreams check ${url}\n`);
    expect(text).toMatch(/\n\nStop it with Ctrl-C\.\n$/);
    expect(nextStepText(serviceWith([{ id: "m" }]))).not.toContain("Found on this machine");
  });
});
