/**
 * A receiver of webhooks that answers without delay: prints `{"port":n}`. GET returns how many it has received. It only
 * finds the ends of requests, so that it uses little processor time in comparison to the service.
 */
import { createServer } from "node:net";

let received = 0;
const headEnd = "\r\n\r\n";
const ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

const server = createServer((socket) => {
  let text = "";
  socket.setNoDelay(true);
  socket.on("data", (data: Buffer) => {
    text += data.toString("latin1");
    for (;;) {
      const end = text.indexOf(headEnd);
      if (end < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
      if (text.length < end + headEnd.length + length) return;
      const isQuery = text.startsWith("GET ");
      text = text.slice(end + headEnd.length + length);
      if (isQuery) {
        const body = String(received);
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      } else {
        received += 1;
        socket.write(ok);
      }
    }
  });
  socket.on("error", () => socket.destroy());
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  process.stdout.write(`${JSON.stringify({ port })}\n`);
});
process.on("SIGTERM", () => process.exit(0));
