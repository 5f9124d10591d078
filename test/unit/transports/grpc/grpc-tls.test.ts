import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { credentials, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition } from "../../../../src/lib/grpc-definition.js";
import type { TlsFiles } from "../../../../src/lib/network.js";
import { GrpcClient } from "../../../support/grpc-client.js";
import { good, startListener } from "./start-listener.js";

const chat = create(CreateChatCompletionRequestSchema, { params: { model: "m" } });

interface Identity {
  readonly cert: Buffer;
  readonly key: Buffer;
}

const hostName = "uis.test";

/** A self-signed certificate. */
function makeIdentity(folder: string, name: string): Identity {
  const file = (end: string) => join(folder, `${name}.${end}`);
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"].concat(
      ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${hostName}`],
      ["-keyout", file("key"), "-out", file("cert")],
    ),
    { stdio: "ignore" },
  );
  return { cert: readFileSync(file("cert")), key: readFileSync(file("key")) };
}

describe("TLS of the gRPC listener", () => {
  let folder = "";
  let first: Identity;
  let second: Identity;
  let caller: Identity;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "uis-tls-"));
    first = makeIdentity(folder, "first");
    second = makeIdentity(folder, "second");
    caller = makeIdentity(folder, "caller");
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const filesOf = ({ cert, key }: Identity, clientCa: Buffer | null = null): TlsFiles => ({ cert, key, clientCa });

  /** The status of a call whose client trusts `server` only. */
  async function callOver(address: string, server: Identity, own?: Identity): Promise<number> {
    const channel = credentials.createSsl(server.cert, own?.key, own?.cert);
    const client = new GrpcClient(grpcDefinition(InferenceService), address, channel, {
      "grpc.ssl_target_name_override": hostName,
    });
    onTestFinished(() => client.close());
    return (await client.unary("createChatCompletion", chat, good())).status.code;
  }

  it("uses the configured certificate and rejects plain text (SEC-29)", async () => {
    const { address, client } = await startListener({ tls: filesOf(first) });
    expect(await callOver(address, first)).toBe(status.OK);
    expect(await callOver(address, second)).toBe(status.UNAVAILABLE);
    expect((await client.unary("createChatCompletion", chat, good())).status.code).toBe(status.UNAVAILABLE);
  });

  it("uses reloaded files for new connections (SEC-29)", async () => {
    const { address, listener } = await startListener({ tls: filesOf(first) });
    listener.reloadTls(filesOf(second));
    expect(await callOver(address, second)).toBe(status.OK);
    expect(await callOver(address, first)).toBe(status.UNAVAILABLE);
  });

  it("rejects unusable files and keeps the previous ones (SEC-29)", async () => {
    const { address, listener } = await startListener({ tls: filesOf(first) });
    expect(() => listener.reloadTls({ cert: first.cert, key: second.key, clientCa: null })).toThrow();
    expect(() => listener.reloadTls({ cert: Buffer.from("rubbish"), key: first.key, clientCa: null })).toThrow();
    expect(() => listener.reloadTls(filesOf(second, caller.cert))).toThrow(/restart|switched/);
    expect(await callOver(address, first)).toBe(status.OK);
  });

  it("with a client CA accepts only clients with certificates of that CA (SEC-29)", async () => {
    const { address } = await startListener({ tls: filesOf(first, caller.cert) });
    expect(await callOver(address, first, caller)).toBe(status.OK);
    expect(await callOver(address, first)).toBe(status.UNAVAILABLE);
    expect(await callOver(address, first, second)).toBe(status.UNAVAILABLE);
  });

  it("cannot be switched on while the listener runs", async () => {
    const { listener } = await startListener();
    expect(() => listener.reloadTls(filesOf(first))).toThrow(/without TLS/);
  });
});
