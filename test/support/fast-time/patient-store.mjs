/**
 * Imported into a service in fast time: it waits for Redis as long as ever in true time, because neither the server nor
 * the way to it is any faster. STORE_PATIENCE is how fast its time is.
 */
import { Command, Redis } from "ioredis";

const factor = Number(process.env.STORE_PATIENCE);
/** What a call has. The rest that is left of it for a second try is reckoned by the fast clock, and is soon nothing. */
const leastMs = 250;

const { setTimeout } = Command.prototype;
Command.prototype.setTimeout = function setPatientTimeout(ms) {
  setTimeout.call(this, Math.max(ms, leastMs) * factor);
};

const patient = new WeakSet();
const { connect } = Redis.prototype;
Redis.prototype.connect = function connectPatiently(...args) {
  if (!patient.has(this)) {
    this.options.connectTimeout *= factor;
    this.options.socketTimeout *= factor;
    patient.add(this);
  }
  return connect.apply(this, args);
};
