/** A minimal server: loads a model in a fake child, sends the child's process id to its parent, and runs until it is killed. */
import { FakeLlama, outcome, textOf } from "./fake-llama.js";

const model = await new FakeLlama().load();
process.on("SIGTERM", () => process.exit(1));
process.on("message", () => {});
process.send?.(Number(textOf((await outcome(model, "pid")).events)));
