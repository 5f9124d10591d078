/**
 * Imported into a service in fast time: its timeouts for Redis stay in real time, because neither the server nor the
 * connection is faster. STORE_PATIENCE is the speed of the fast time.
 */
import { Command, Redis } from "ioredis";

const factor = Number(process.env.STORE_PATIENCE);
/** Shortest timeout of a call: the time left for a retry is computed by the fast clock, and is soon 0. */
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
