/** Of a delivery's body; ours are far smaller. */
export const deliveryBytesMax = 1_048_576;

/** All bytes of a body; null when there are more than a delivery has. */
export async function readDeliveryBody(source: AsyncIterable<Uint8Array>): Promise<Buffer | null> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of source) {
    length += chunk.length;
    if (length > deliveryBytesMax) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
