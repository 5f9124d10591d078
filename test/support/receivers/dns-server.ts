import { createSocket } from "node:dgram";
import { once } from "node:events";
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";

/** Addresses, returned for queries of their family; or another behaviour of the server. */
export type ZoneAnswer = readonly string[] | "silence" | "no such name" | "failure";

/** Answers by name in lower case; a function gets the number of earlier queries of this name and type. */
export type Zone = Readonly<Record<string, ZoneAnswer | ((before: number) => ZoneAnswer)>>;

export interface DnsServer {
  /** `127.0.0.1:port`, for the setting `webhooks.dns_servers`. */
  readonly server: string;
  /** Every question so far, as `A name` or `AAAA name`. */
  readonly questions: readonly string[];
  close(): Promise<void>;
}

interface Question {
  readonly name: string;
  /** 1 is A, 28 is AAAA. */
  readonly type: number;
  /** Offset of the question's end in the message. */
  readonly end: number;
}

const typeA = 1;
const typeAaaa = 28;

/**
 * A name server on UDP whose answers have a TTL of 0 seconds. Names outside of the zone do not exist. Port 0 picks a
 * free one.
 */
export async function startDnsServer(zone: Zone, port = 0): Promise<DnsServer> {
  const questions: string[] = [];
  const asked = new Map<string, number>();
  const socket = createSocket("udp4");
  socket.on("message", (message, from) => {
    const question = readQuestion(message);
    const text = `${question.type === typeA ? "A" : "AAAA"} ${question.name}`;
    const before = asked.get(text) ?? 0;
    asked.set(text, before + 1);
    questions.push(text);
    const entry = zone[question.name] ?? "no such name";
    const answer = typeof entry === "function" ? entry(before) : entry;
    if (answer !== "silence") socket.send(reply(message, question, answer), from.port, from.address);
  });
  socket.bind(port, "127.0.0.1");
  await once(socket, "listening");
  return {
    server: `127.0.0.1:${socket.address().port}`,
    questions,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

function readQuestion(message: Buffer): Question {
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 };
}

function reply(message: Buffer, { type, end }: Question, answer: Exclude<ZoneAnswer, "silence">): Buffer {
  const code = { "no such name": 3, failure: 2 };
  const addresses = typeof answer === "string" ? [] : answer.filter((one) => (isIPv4(one) ? typeA : typeAaaa) === type);
  const head = Buffer.alloc(12);
  message.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180 | (typeof answer === "string" ? code[answer] : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(addresses.length, 6);
  return Buffer.concat([head, message.subarray(12, end), ...addresses.map((address) => record(address, type))]);
}

/** A record for the question's name, with a TTL of 0 seconds. */
function record(address: string, type: number): Buffer {
  const bytes = Buffer.from(ipaddr.parse(address).toByteArray());
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([head, bytes]);
}
