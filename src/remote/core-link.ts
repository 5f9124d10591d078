import { type ChannelCredentials, Client, type ClientOptions, Metadata, status } from "@grpc/grpc-js";
import type { Clock } from "../domain/call/ports.js";
import { MemberList, type Placed } from "../lib/collections.js";

/** Result of the last health check. A `leaving` core is stopping: it finishes its calls and takes no new ones. */
type LinkState = "unknown" | "serving" | "leaving" | "unreachable";

/** A call that runs on a `CoreLink`. */
export interface LinkedCall extends Placed {
  /** Ends the call, because the core does not answer any more. */
  lost(): void;
}

interface Connection {
  readonly client: Client;
  calls: number;
  /** Number of calls that the gateway has cancelled on this connection. */
  resets: number;
}

/**
 * Running and cancelled calls of one connection after which another one is opened. A core accepts 1,000 streams at the same
 * time. Node closes a connection with more than 1,000 stream resets, of which it forgets 33 a second: below this number,
 * all calls of a connection may be cancelled.
 */
const callsPerConnection = 900;

function isFull({ calls, resets }: Connection): boolean {
  return calls + resets >= callsPerConnection;
}

const checkTimeoutMs = 2_000;
/** Number of health checks without any answer after which the machine counts as lost, and its running calls are ended. */
const silentChecksMax = 5;

const healthPath = "/grpc.health.v1.Health/Check";
/** Encoded HealthCheckResponse with the status SERVING. */
const serving = Buffer.from([8, 1]);

/** Channel options of all connections. */
const channelOptions: ClientOptions = {
  // By default all channels of an address share one connection.
  "grpc.use_local_subchannel_pool": 1,
  // `callCore` and `streamFromCore` repeat calls, on another core.
  "grpc.enable_retries": 0,
  "grpc.enable_channelz": 0,
  "grpc.service_config_disable_resolution": 1,
  // The limits of request bodies and stream buffers bound the size of messages.
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  // All streams of a connection share its flow control window, for which Node's default of 64 KiB is too small.
  "grpc-node.flow_control_window": 4 * 1024 * 1024,
};

/**
 * One address of a core, with its connections. Health checks find lost and leaving cores. The keepalive of grpc-js is not
 * used: it also pings connections on which a core has sent GOAWAY. Such pings are not answered, so grpc-js would end calls
 * that the core is still finishing.
 */
export class CoreLink {
  /** `ipv4:10.0.0.5:50051` */
  readonly address: string;
  state: LinkState = "unknown";
  readonly #credentials: ChannelCredentials;
  readonly #options: ClientOptions;
  readonly #clock: Pick<Clock, "now">;
  readonly #connections: Connection[] = [];
  readonly #calls = new MemberList<LinkedCall>();
  #silentChecks = 0;
  #isClosed = false;

  /** `serverName`: host name that the core's certificate must have; null: the certificate must have the address. */
  constructor(address: string, credentials: ChannelCredentials, serverName: string | null, clock: Pick<Clock, "now">) {
    this.address = address;
    this.#credentials = credentials;
    const ofName = { "grpc.ssl_target_name_override": serverName ?? "", "grpc.default_authority": serverName ?? "" };
    this.#options = serverName === null ? channelOptions : { ...channelOptions, ...ofName };
    this.#clock = clock;
  }

  /** Number of calls that run on this link. */
  get outstanding(): number {
    return this.#calls.size;
  }

  /** A client for one call. Call `release` when the call has ended; `isCancelled`: this gateway has cancelled it. */
  take(call: LinkedCall): { readonly client: Client; readonly release: (isCancelled: boolean) => void } {
    const connection = this.#connection();
    connection.calls += 1;
    this.#calls.add(call);
    return {
      client: connection.client,
      release: (isCancelled) => {
        this.#calls.delete(call);
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
    for (const call of this.#calls.all()) call.lost();
  }

  /** No more calls are started on this link; each connection is closed when its calls have ended. */
  close(): void {
    this.#isClosed = true;
    for (const connection of [...this.#connections]) this.#closeIfSpare(connection);
  }
}
