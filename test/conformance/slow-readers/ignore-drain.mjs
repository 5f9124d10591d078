// A fault for the canary of the slow-reader test: every response reports immediately that the kernel has taken its text.
import { ServerResponse } from "node:http";

const { write } = ServerResponse.prototype;
ServerResponse.prototype.write = function (chunk, encoding, sent) {
  if (sent !== undefined) process.nextTick(sent);
  return write.call(this, chunk, encoding);
};
