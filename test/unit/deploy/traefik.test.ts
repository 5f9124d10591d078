import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parseDocument } from "yaml";
import { configSchema } from "../../../src/app/config/schema.js";
import { defaultLimits } from "../../../src/contract/limits.js";

interface Router {
  readonly rule: string;
  readonly entryPoints: readonly string[];
  readonly middlewares?: readonly string[];
  readonly service: string;
  readonly tls: object;
}

interface LoadBalancer {
  readonly servers: readonly { readonly url: string }[];
  readonly passHostHeader: boolean;
  readonly serversTransport: string;
  readonly healthCheck: { readonly path: string; readonly port?: number; readonly scheme?: string };
}

interface Routes {
  readonly http: {
    readonly routers: Readonly<Record<string, Router>>;
    readonly middlewares: Readonly<Record<string, object>>;
    readonly services: Readonly<Record<string, { readonly loadBalancer: LoadBalancer }>>;
    readonly serversTransports: Readonly<
      Record<
        string,
        { readonly forwardingTimeouts: { readonly responseHeaderTimeout: string; idleConnTimeout: string } }
      >
    >;
  };
}

function read(file: string): unknown {
  const document = parseDocument(readFileSync(`deploy/proxy/${file}`, "utf8"));
  expect(document.errors).toEqual([]);
  return document.toJS();
}

const { http } = read("traefik-routes.yaml") as Routes;
const { entryPoints } = read("traefik.yaml") as {
  readonly entryPoints: Readonly<
    Record<string, { readonly transport: { readonly respondingTimeouts: { readonly writeTimeout: string } } }>
  >;
};
const { server } = configSchema.parse({});
const secondsOf = (text: string) => Number(/^(\d+)s$/.exec(text)?.[1]);

describe("the configuration of Traefik", () => {
  it("refers only to entry points, services, middlewares and transports that it defines", () => {
    const routers = Object.values(http.routers);
    const defined = (names: object) => Object.keys(names).toSorted();
    const used = (names: readonly string[]) => [...new Set(names)].toSorted();
    expect(used(routers.flatMap((router) => router.entryPoints))).toEqual(defined(entryPoints));
    expect(used(routers.flatMap((router) => router.middlewares ?? []))).toEqual(defined(http.middlewares));
    expect(used(routers.map(({ service }) => service))).toEqual(defined(http.services));
    const balancers = Object.values(http.services).map(({ loadBalancer }) => loadBalancer);
    expect(used(balancers.map(({ serversTransport }) => serversTransport))).toEqual(defined(http.serversTransports));
    expect(routers.map(({ tls }) => tls)).toEqual(routers.map(() => ({})));
  });

  it("uses the ports of the service, HTTP/2 for gRPC, and /ready as health check", () => {
    const portsOf = (service: string) =>
      http.services[service]?.loadBalancer.servers.map(({ url }) => new URL(url).port);
    expect(portsOf("rest")).toEqual([String(server.port), String(server.port)]);
    expect(portsOf("grpc")).toEqual([String(server.grpc_port), String(server.grpc_port)]);
    expect(http.services["grpc"]?.loadBalancer.servers.every(({ url }) => url.startsWith("h2c://"))).toBe(true);
    expect(http.services["rest"]?.loadBalancer.healthCheck).toMatchObject({ path: "/ready" });
    const ofHttp = { path: "/ready", scheme: "http", port: server.port };
    expect(http.services["grpc"]?.loadBalancer.healthCheck).toMatchObject(ofHttp);
  });

  it("waits longer than the service for answers, and closes idle connections before it", () => {
    for (const { forwardingTimeouts } of Object.values(http.serversTransports)) {
      expect(secondsOf(forwardingTimeouts.responseHeaderTimeout) * 1_000).toBeGreaterThan(defaultLimits.deadlineMs);
      expect(secondsOf(forwardingTimeouts.idleConnTimeout) * 1_000).toBeLessThan(defaultLimits.keepAliveTimeoutMs);
    }
    for (const { transport } of Object.values(entryPoints)) {
      expect(transport.respondingTimeouts.writeTimeout).toBe("0s");
    }
  });

  it("neither compresses nor retries, and forwards the host name that the dashboard compares with Origin", () => {
    const options = Object.values(http.middlewares).flatMap((middleware) => Object.keys(middleware));
    expect(options.toSorted()).toEqual(["headers", "stripPrefix"]);
    expect(Object.values(http.services).every(({ loadBalancer }) => loadBalancer.passHostHeader)).toBe(true);
  });
});
