const mappedIpv4 = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i;
/** Groups of an IPv6 address that name a network: whoever has one address of a /64 has all of them. */
const networkGroups = 4;

/** What stands for a caller in a limit by address: an IPv4 address as it is, the /64 of an IPv6 address. */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  const ipv4 = mappedIpv4.exec(address)?.[1];
  if (ipv4 !== undefined) return ipv4;
  const [plain = ""] = address.toLowerCase().split("%");
  const [head = "", tail] = plain.split("::");
  const groups = groupsOf(head);
  if (tail !== undefined) {
    const rest = groupsOf(tail);
    while (groups.length + rest.length < 8) groups.push("0");
    groups.push(...rest);
  }
  return `${groups.slice(0, networkGroups).join(":")}::/64`;
}

function groupsOf(text: string): string[] {
  return text === "" ? [] : text.split(":").map((group) => group.replace(/^0+(?=.)/, ""));
}
