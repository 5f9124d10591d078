import { expect, it } from "vitest";
import { grpcAddress } from "../../../src/dashboard/pages/playground/examples.js";

it.each([
  ["127.0.0.1", "localhost", "localhost:50052"],
  ["0.0.0.0", "ai.example", "ai.example:50052"],
  ["::", "[fd00::7]", "[fd00::7]:50052"],
  ["[::1]", "127.0.0.1", "127.0.0.1:50052"],
  ["10.0.0.5", "ai.example", "10.0.0.5:50052"],
  ["fd00::5", "ai.example", "[fd00::5]:50052"],
])("for a listener on %s and a page loaded from %s, the gRPC address is %s", (host, hostname, grpc) => {
  expect(grpcAddress({ host, grpcPort: 50_052 }, hostname)).toEqual({ grpc, isTls: false });
});

it("the gRPC address uses TLS if the listener does, independent of the dashboard's own scheme", () => {
  expect(grpcAddress({ host: "0.0.0.0", grpcPort: 1, tls: true }, "ai.example").isTls).toBe(true);
});
