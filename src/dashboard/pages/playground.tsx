export function Playground() {
  return null;
}
