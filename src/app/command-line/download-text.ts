import { TransferRate } from "../../domain/catalog/transfer-rate.js";
import { byteText } from "../../lib/display-text.js";

/** Bytes of a download. */
export interface Received {
  readonly receivedBytes: number;
  /** Size of the download; null while unknown. */
  readonly totalBytes: number | null;
}

/** Progress of one download as text, with rate and time left. */
export class DownloadText {
  readonly #rate: TransferRate;

  constructor(nowMs: () => number) {
    this.#rate = new TransferRate(nowMs);
  }

  /** `[####------]  40 %  37.2 of 92.9 MB  12.1 MB/s  5 s left`, with a bar that fills the rest of `width` columns. */
  bar(received: Received, width: number): string {
    const { receivedBytes, totalBytes } = received;
    const parts = [amountText(received), ...this.#speed(received)];
    if (totalBytes === null) return parts.join("  ");
    const text = ` ${percentText(received)}  ${parts.join("  ")}`;
    const cells = Math.min(cellsMax, width - text.length - 2);
    if (cells < cellsMin) return text.trimStart();
    const full = Math.floor(shareOf(receivedBytes, totalBytes) * cells);
    return `[${"#".repeat(full)}${"-".repeat(cells - full)}]${text}`;
  }

  /** ` 40 %, 37.2 MB of 92.9 MB, 12.1 MB/s, 5 s left` */
  line(received: Received): string {
    return [receivedText(received), ...this.#speed(received)].join(", ");
  }

  /** Rate and time left, as far as they are known. */
  #speed({ receivedBytes, totalBytes }: Received): readonly string[] {
    this.#rate.received(receivedBytes);
    const rate = this.#rate.bytesPerSecond;
    if (rate === null || rate <= 0 || receivedBytes === totalBytes) return [];
    const speed = `${byteText(rate)}/s`;
    return totalBytes === null ? [speed] : [speed, `${timeText((totalBytes - receivedBytes) / rate)} left`];
  }
}

const cellsMax = 30;
const cellsMin = 5;

/** ` 40 %, 37.2 MB of 92.9 MB`, as wide for each percentage */
export function receivedText(received: Received): string {
  const { receivedBytes, totalBytes } = received;
  if (totalBytes === null) return byteText(receivedBytes);
  return `${percentText(received)}, ${byteText(receivedBytes)} of ${byteText(totalBytes)}`;
}

/** `37.2 of 92.9 MB`, with two units if the units differ. */
function amountText({ receivedBytes, totalBytes }: Received): string {
  const received = byteText(receivedBytes);
  if (totalBytes === null) return received;
  const total = byteText(totalBytes);
  const unit = total.slice(total.indexOf(" "));
  return `${received.endsWith(unit) ? received.slice(0, -unit.length) : received} of ${total}`;
}

function percentText({ receivedBytes, totalBytes }: Received): string {
  return `${String(Math.floor(shareOf(receivedBytes, totalBytes ?? 0) * 100)).padStart(3)} %`;
}

/** Received share of a download, 0 to 1; an empty download is complete. */
export function shareOf(receivedBytes: number, totalBytes: number): number {
  return totalBytes === 0 ? 0 : Math.min(1, receivedBytes / totalBytes);
}

/** `5 s`, `2 min`, `1 h 5 min`; at least 1 s. */
export function timeText(seconds: number): string {
  if (seconds < 100) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
