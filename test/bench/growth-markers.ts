/**
 * Writes or counts markers of settled requests in the state file of a stopped service. A separate process, whose end
 * releases the file.
 *
 *   growth-markers.ts DATA_DIR fill COUNT FROM_MS TO_MS    writes markers with times of that range, in ascending order
 *   growth-markers.ts DATA_DIR count BEFORE_MS ...         prints how many are older, for each time
 */
import { openStateFile } from "../../src/state/embedded/database/state-file.js";

const [dataDir = "", command, ...numbers] = process.argv.slice(2);
const { db } = openStateFile(dataDir);
if (command === "fill") {
  const [count = 0, fromMs = 0, toMs = 0] = numbers.map(Number);
  const insert = db.prepare("INSERT INTO settled (request_id, at_ms) VALUES (?, ?)");
  db.exec("BEGIN");
  for (let number = 0; number < count; number++) {
    const atMs = Math.floor(fromMs + ((toMs - fromMs) * number) / count);
    insert.run(`req_${atMs.toString(16).padStart(12, "0")}${number.toString(16).padStart(20, "0")}`, atMs);
  }
  db.exec("COMMIT");
} else {
  const older = db.prepare("SELECT count(*) AS n FROM settled WHERE at_ms < ?");
  process.stdout.write(JSON.stringify(numbers.map((beforeMs) => Number(older.get(Number(beforeMs))?.["n"]))));
}
db.close();
