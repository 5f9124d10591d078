import { connect, type Socket } from "node:net";

/** One keep-alive connection that requests streams one after the other and times their first event. */
export class FirstByteClient {
  readonly #socket: Socket;
  #onData: (data: Buffer) => void = () => {};

  static async open(port: number): Promise<FirstByteClient> {
    const socket = connect(port, "127.0.0.1");
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new FirstByteClient(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (data: Buffer) => this.#onData(data));
  }

  /** Milliseconds from the request to the first event; resolves when the answer is over. */
  ask(request: Buffer): Promise<number> {
    return new Promise((resolve, reject) => {
      let text = "";
      let firstMs: number | null = null;
      const beganMs = performance.now();
      this.#onData = (data) => {
        text += data.toString("latin1");
        if (firstMs === null && text.includes("data: ")) firstMs = performance.now() - beganMs;
        if (!text.endsWith("0\r\n\r\n")) return;
        if (text.startsWith("HTTP/1.1 200") && firstMs !== null) resolve(firstMs);
        else reject(new Error(`no stream: ${text.slice(0, 200)}`));
      };
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}
