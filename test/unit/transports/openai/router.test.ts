import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { type OperationRow, operations } from "../../../../src/contract/operations.js";
import { decodeId } from "../../../../src/transports/http/api.js";
import { RouteTable } from "../../../../src/transports/http/routes.js";
import { restPaths, unknownUrl } from "../../../../src/transports/openai/routes.js";
import { expectRefusal } from "./refusal.js";

/** The route that a route table of all REST paths finds. */
function findRoute(path: string): ((typeof restPaths)[number] & { readonly rawId: string }) | null {
  let found: ((typeof restPaths)[number] & { readonly rawId: string }) | null = null;
  const routes = restPaths.map((of) => ({
    path: of.path,
    handle: (_req: IncomingMessage, _res: ServerResponse, rawId: string) => {
      found = { ...of, rawId };
    },
  }));
  new RouteTable(routes, () => {}).serve({ url: path } as IncomingMessage, {} as ServerResponse);
  return found;
}

describe("router", () => {
  it("finds the operation of every REST path (SEC-3)", () => {
    for (const [name, { rest }] of Object.entries(operations) as [string, OperationRow][]) {
      if (rest !== undefined) expect(findRoute(rest.path)?.methods.get(rest.method)).toBe(name);
    }
  });

  it.each([
    "/v1/chat",
    "/v1/chat/completions/",
    "/v1/Chat/completions",
    "/v1/chat%2Fcompletions",
    "/v1",
    "/",
    "//v1/models",
  ])("has no route for %s (SEC-3)", (path) => {
    expect(findRoute(path)).toBeNull();
  });

  it("takes all text after /v1/models/ as the id, including slashes, and an empty id is not the list (MODEL-3, MODEL-5)", () => {
    expect(findRoute("/v1/models/org/name:tag")?.rawId).toBe("org/name:tag");
    expect(findRoute("/v1/models/org%2Fname")?.rawId).toBe("org%2Fname");
    expect(findRoute("/v1/models/")?.rawId).toBe("");
    expect(findRoute("/v1/models/")?.methods.get("GET")).toBe("get_model");
  });

  it("finds an id in the middle of a path, where the longer route applies", () => {
    const items = findRoute("/v1/responses/resp_1/input_items");
    expect([items?.rawId, items?.methods.get("GET")]).toEqual(["resp_1", "list_response_input_items"]);
    const response = findRoute("/v1/responses/resp_1");
    expect([response?.rawId, response?.methods.get("GET")]).toEqual(["resp_1", "get_response"]);
    expect(findRoute("/v1/responses/a/b")?.rawId).toBe("a/b");
    expect(findRoute("/v1/responses/input_items")?.rawId).toBe("input_items");
    expect(findRoute("/v1/models/a/input_items")?.rawId).toBe("a/input_items");
  });

  it("refuses two routes with the same path", () => {
    const handle = (): void => {};
    for (const path of ["/a", "/a/*", "/a/*/b"]) {
      const twice = [path, "/b", path].map((one) => ({ path: one, handle }));
      expect(() => new RouteTable(twice, handle)).toThrow(`two routes have the path ${path}`);
    }
  });

  it("knows all methods of a path for 405, also methods that need a higher scope than the caller has (SEC-2)", () => {
    for (const path of ["/v1/webhooks", "/v1/webhooks/we_1", "/v1/responses/resp_1"]) {
      const route = findRoute(path);
      expect(route?.methods.size).toBe(2);
      expect(operations[route?.anyOperation ?? "create_completion"].need).toBe("read");
    }
  });

  it("decodes an id exactly once (MODEL-4)", () => {
    expect(decodeId("a%2Fb")).toBe("a/b");
    expect(decodeId("a%2520b")).toBe("a%20b");
    expect(decodeId("a:b@c+d")).toBe("a:b@c+d");
    for (const broken of ["100%", "%E2%82", "%zz"]) expectRefusal(() => decodeId(broken), "invalid_value", null);
  });

  it.each([
    ["/chat/completions", "/v1/chat/completions"],
    ["/v1/v1/chat/completions", "/v1/chat/completions"],
    ["/v1/chat/completions/chat/completions", "/v1/chat/completions"],
    ["/v1/chat/completions/", "/v1/chat/completions"],
    ["/completions", "/v1/completions"],
    ["/api/v1/embeddings", "/v1/embeddings"],
    ["/models", "/v1/models"],
    ["/responses", "/v1/responses"],
    ["/v1/v1/responses", "/v1/responses"],
  ])("answers %s with the advice to use %s (GEN-2)", (path, meant) => {
    expect(unknownUrl("POST", path).message).toContain(`${meant}`);
  });

  it("removes words from a quoted path by which clients would classify the error wrongly (ERR-3)", () => {
    expect(unknownUrl("GET", "/rate limit/maximum context length").message).not.toMatch(/rate limit|context length/);
  });
});
