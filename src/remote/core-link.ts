import { type ChannelCredentials, Client, type ClientOptions, Metadata, status } from "@grpc/grpc-js";
import type { Clock } from "../domain/call/ports.js";

/** What the last health check found: `leaving` cores finish their calls and take no new ones. */
type LinkState = "unknown" | "serving" | "leaving" | "unreachable";

/** A call that runs on a link. */
export interface LinkedCall {
  /** Ends it, because the core does not answer any more. */
  lost(): void;
}

interface Connection {
  readonly client: Client;
  calls: number;
  /** Calls that the gateway has cancelled. */
  resets: number;
}

/**
 * Running and cancelled calls of one connection before another one is opened. A core accepts 1,000 streams at once, and Node
 * breaks a connection with more than 1,000 resets, which become 33 fewer each second: this many calls may all be cancelled.
 */
const callsPerConnection = 900;

function isFull({ calls, resets }: Connection): boolean {
  return calls + resets >= callsPerConnection;
}

const checkTimeoutMs = 2_000;
/** Checks without any answer after which the machine counts as lost, and its running calls end. */
const silentChecksMax = 5;

const healthPath = "/grpc.health.v1.Health/Check";
/** HealthCheckResponse with the status SERVING, as bytes. */
const serving = Buffer.from([8, 1]);

/** Names and values that all connections share. */
const channelOptions: ClientOptions = {
  // Else all channels of an address would share one connection.
  "grpc.use_local_subchannel_pool": 1,
  // Calls are repeated by RemoteCore, on another core.
  "grpc.enable_retries": 0,
  "grpc.enable_channelz": 0,
  "grpc.service_config_disable_resolution": 1,
  // Both are bounded by the limits on bodies.
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  // The window of Node's default, 64 KiB, is shared by all streams of a connection.
  "grpc-node.flow_control_window": 4 * 1024 * 1024,
};

/**
 * One address of a core, with its connections. grpc-js's own keepalive is not used: it pings connections that a core has
 * closed with GOAWAY, takes the missing answer for a lost core and so ends calls that the core still finishes. Health
 * checks find lost cores instead, and those that are leaving.
 */
export class CoreLink {
  /** `ipv4:10.0.0.5:50051` */
  readonly address: string;
  state: LinkState = "unknown";
  readonly #credentials: ChannelCredentials;
  readonly #options: ClientOptions;
  readonly #clock: Pick<Clock, "now">;
  readonly #connections: Connection[] = [];
  readonly #calls = new Set<LinkedCall>();
  #silentChecks = 0;
  #isClosed = false;

  /** `serverName`: name in the certificate of the core; null: its address. */
  constructor(address: string, credentials: ChannelCredentials, serverName: string | null, clock: Pick<Clock, "now">) {
    this.address = address;
    this.#credentials = credentials;
    const ofName = { "grpc.ssl_target_name_override": serverName ?? "", "grpc.default_authority": serverName ?? "" };
    this.#options = serverName === null ? channelOptions : { ...channelOptions, ...ofName };
    this.#clock = clock;
  }

  /** Calls that run on it. */
  get outstanding(): number {
    return this.#calls.size;
  }

  /** A client for one call, until the returned function is called, which takes whether the call was cancelled here. */
  take(call: LinkedCall): { readonly client: Client; readonly release: (isCancelled: boolean) => void } {
    const connection = this.#connection();
    connection.calls += 1;
    this.#calls.add(call);
    return {
      client: connection.client,
      release: (isCancelled) => {
        if (!this.#calls.delete(call)) return;
        connection.calls -= 1;
        if (isCancelled) connection.resets += 1;
        this.#closeIfSpare(connection);
      },
    };
  }

  /** The connection with the fewest calls, or a new one when all are nearly full. */
  #connection(): Connection {
    let best: Connection | null = null;
    for (const one of this.#connections) if (!isFull(one) && (best === null || one.calls < best.calls)) best = one;
    if (best !== null) return best;
    const opened = { client: new Client(this.address, this.#credentials, this.#options), calls: 0, resets: 0 };
    this.#connections.push(opened);
    return opened;
  }

  #closeIfSpare(connection: Connection): void {
    if (connection.calls > 0) return;
    const hasOther = this.#connections.some((one) => one !== connection && !isFull(one));
    if (!this.#isClosed && !isFull(connection) && !hasOther) return;
    this.#connections.splice(this.#connections.indexOf(connection), 1);
    connection.client.close();
  }

  /** Checks the core's health, which also opens the connection. Never rejects. */
  check(): Promise<void> {
    const { client } = this.#connection();
    const deadline = this.#clock.now() + checkTimeoutMs;
    return new Promise((resolve) => {
      const encode = () => Buffer.alloc(0);
      const decode = (bytes: Buffer) => bytes;
      client.makeUnaryRequest(healthPath, encode, decode, null, new Metadata(), { deadline }, (error, answer) => {
        if (error === null) {
          this.#silentChecks = 0;
          this.state = answer?.equals(serving) === true ? "serving" : "leaving";
        } else {
          this.#failed(error.code);
        }
        resolve();
      });
    });
  }

  #failed(code: status): void {
    this.state = "unreachable";
    this.#silentChecks = code === status.DEADLINE_EXCEEDED ? this.#silentChecks + 1 : 0;
    if (this.#silentChecks < silentChecksMax) return;
    for (const call of [...this.#calls]) call.lost();
  }

  /** Opens no call any more; connections close when their calls have ended. */
  close(): void {
    this.#isClosed = true;
    for (const connection of [...this.#connections]) this.#closeIfSpare(connection);
  }
}
