import { once } from "node:events";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import { handCredential } from "../../../support/hand-core.js";
import { grpcFrame } from "../../../support/raw-grpc.js";
import { startListener } from "./start-listener.js";

/** Makes the posted number of calls, 20 in parallel. A worker thread has its own heap, which is not measured. */
const client = `
  const { parentPort, workerData: { address, body, headers } } = require("node:worker_threads");
  const session = require("node:http2").connect("http://" + address);
  parentPort.on("message", async (calls) => {
    let left = calls;
    const run = async () => {
      for (; left > 0; left -= 1) {
        const stream = session.request(headers);
        stream.resume().end(body);
        await require("node:events").once(stream, "close");
      }
    };
    await Promise.all(Array.from({ length: 20 }, run));
    parentPort.postMessage("done");
  });`;

const oldBytes = () => getHeapSpaceStatistics().find((space) => space.space_name === "old_space")?.space_used_size ?? 0;

/** The message of a short chat. */
const message = create(CreateChatCompletionRequestSchema, { params: { model: "m" } });
const callsMeasured = 400;
/** Node's session keeps 3 kB of a closed stream. All objects of a call together are 11 kB. */
const survivingBytesMax = 6 * 1024;

it("the objects of a finished gRPC call are freed by the next two scavenges (E-41)", async () => {
  const { address, core } = await startListener();
  // The test core keeps all calls, so they are removed here; the core of the service keeps none.
  core.beforeOpen = () => void core.calls.splice(0);
  const headers = {
    ":method": "POST",
    ":path": grpcPath(InferenceService.method.createChatCompletion),
    "content-type": "application/grpc+proto",
    te: "trailers",
    authorization: handCredential,
  };
  const body = grpcFrame(toBinary(CreateChatCompletionRequestSchema, message));
  const worker = new Worker(client, { eval: true, workerData: { address, body, headers } });
  onTestFinished(async () => void (await worker.terminate()));
  const makeCalls = async (): Promise<void> => {
    worker.postMessage(callsMeasured);
    await once(worker, "message");
  };
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  await makeCalls();
  const surviving: number[] = [];
  for (let round = 0; round < 6; round += 1) {
    collect();
    const before = oldBytes();
    await makeCalls();
    collect({ type: "minor" });
    collect({ type: "minor" });
    surviving.push((oldBytes() - before) / callsMeasured);
  }
  // The second lowest value: a full collection may occur in a round, and on a busy machine calls may still run at its end.
  expect(surviving.toSorted((a, b) => a - b)[1]).toBeLessThan(survivingBytesMax);
});
