// Per-row values of the page: six little-endian uint16 arrays and one uint8 array, one after the other.

export const NO_CLUSTER = 65535; // runner-up of a row without probabilities

export function rowArrays(buffer, n) {
  const array = (i) => new Uint16Array(buffer, 2 * n * i, n);
  const [labels, runnerUp, confidence, margin, outlier, typicality] = [0, 1, 2, 3, 4, 5].map(array);
  return { labels, runnerUp, confidence, margin, outlier, typicality, locked: new Uint8Array(buffer, 12 * n, n) };
}
