import { connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import { envelope } from "../../../support/connect-http.js";
import { eventually } from "../../../support/eventually.js";
import { handCredential, silentUntilAborted } from "../../../support/hand-core.js";
import { startServer } from "./start-server.js";

const streamsMeasured = 100;
/** Maximum heap of a waiting stream, including its raw socket in this process. */
const heldBytesMax = 24 * 1024;

/** A streamed chat over Connect. Sent by a raw socket: the memory of a client in this process would also be measured. */
function streamRequest(): Buffer {
  const params = { model: "m" };
  const message = toBinary(CreateChatCompletionRequestSchema, create(CreateChatCompletionRequestSchema, { params }));
  const body = envelope(message);
  const lines = [
    `POST ${grpcPath(InferenceService.method.streamChatCompletion)} HTTP/1.1`,
    "host: h",
    "content-type: application/connect+proto",
    `authorization: ${handCredential}`,
    `content-length: ${body.length}`,
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), body]);
}

it("a Connect stream that waits for the engine uses little more memory than its connection (E-44)", async () => {
  const { core, url } = await startServer();
  let waiting = 0;
  core.chunks = (_params, ctx) => {
    waiting += 1;
    return silentUntilAborted(ctx.signal);
  };
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const bytes = streamRequest();
  async function hold(count: number): Promise<void> {
    const until = waiting + count;
    for (let i = 0; i < count; i += 1) {
      const socket = connect(Number(new URL(url).port), "127.0.0.1", () => socket.write(bytes));
      socket.on("error", () => {});
      onTestFinished(() => void socket.destroy());
    }
    await eventually(() => waiting === until, "the streams wait");
    collect();
  }
  await hold(streamsMeasured);
  const before = process.memoryUsage().heapUsed;
  await hold(streamsMeasured);
  expect((process.memoryUsage().heapUsed - before) / streamsMeasured).toBeLessThan(heldBytesMax);
});
