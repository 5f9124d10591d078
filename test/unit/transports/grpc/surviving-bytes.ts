import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { create, toBinary } from "@bufbuild/protobuf";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcPath } from "../../../../src/lib/grpc-definition.js";
import { runClient } from "../../../support/client-process.js";
import { handCredential } from "../../../support/hand-core.js";
import { grpcFrame } from "../../../support/raw-grpc.js";
import { openListener } from "./start-listener.js";

interface Plan {
  readonly rounds: number;
  readonly callsPerRound: number;
}

/**
 * Bytes for each call that two scavenges leave in the old generation, one figure for each round. Measured in a process of its
 * own: in that of the tests, objects of earlier tests move to the old generation at the same time.
 */
export function survivingBytes(plan: Plan): Promise<readonly number[]> {
  return runClient(fileURLToPath(import.meta.url), plan);
}

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

async function main({ rounds, callsPerRound }: Plan): Promise<void> {
  // As src/app/cli.ts does.
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  const { address, core, close } = await openListener();
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
  const makeCalls = async (): Promise<void> => {
    worker.postMessage(callsPerRound);
    await once(worker, "message");
  };
  await makeCalls();
  const surviving: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    collect();
    const before = oldBytes();
    await makeCalls();
    collect({ type: "minor" });
    collect({ type: "minor" });
    surviving.push((oldBytes() - before) / callsPerRound);
  }
  process.stdout.write(JSON.stringify(surviving));
  await worker.terminate();
  await close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(JSON.parse(process.argv[2] ?? "") as Plan);
