/** A process with one receiver for each trick. It sends their URLs to its parent and ends with it. */
import process from "node:process";
import { startReceiver } from "./receiver.js";
import { type Trick, tricks } from "./tricks.js";

process.on("disconnect", () => process.exit());
const urls = await Promise.all(
  (Object.keys(tricks) as Trick[]).map(async (answer) => [answer, (await startReceiver({ answer })).url]),
);
process.send?.(Object.fromEntries(urls));
