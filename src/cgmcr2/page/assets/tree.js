// The levels of a run: its tree of clusters, cut at a number of them. Numbers and names stay with the branches.

import { NO_CLUSTER } from "./rows.js";

const LISTED = 28; // rows listed for the card of a cluster

// The data of the page at the level of m clusters. base: the data as fitted, with its tree in base.levels
export function atLevel(base, m) {
  const { proposed, leaves, merges, sizes, leaf, names } = base.levels;
  if (m === proposed) return base;
  const target = new Map(leaves.map((number) => [number, number]));
  for (const [kept, gone] of merges.slice(0, leaves.length - m).reverse()) target.set(gone, target.get(kept));
  const numbers = leaves.map((number) => target.get(number)), now = (cluster) => target.get(cluster) ?? cluster;
  const labels = base.labels.map((label, row) => (leaf[row] === NO_CLUSTER ? label : numbers[leaf[row]]));
  const merged = base.runnerUp.map((cluster, row) => cluster !== NO_CLUSTER && now(cluster) === labels[row]);
  // A runner-up that is now in the same cluster adds its probability.
  const confidence = base.confidence.map((value, row) => (merged[row] ? Math.min(10000, 2 * value - base.margin[row]) : value));
  const margin = base.margin.map((value, row) => (merged[row] ? confidence[row] : value));
  const runnerUp = base.runnerUp.map((cluster, row) => (cluster === NO_CLUSTER || merged[row] ? NO_CLUSTER : now(cluster)));
  const rows = Map.groupBy(labels.keys(), (row) => labels[row]), size = new Map();
  numbers.forEach((number, i) => size.set(number, (size.get(number) ?? 0) + sizes[i]));
  const clusters = [...size.keys()].sort((a, b) => a - b).map((number) => {
    const members = rows.get(number) ?? [];
    return {
      number, name: names[number], size: size.get(number), cohesion: null, confused_with: null, confusion: 0, attention: 0, locked: 0, excluded: false,
      confidence: (members.map((row) => confidence[row]).sort((a, b) => a - b)[members.length >> 1] ?? 0) / 10000,
      typical: [...members].sort((a, b) => base.typicality[b] - base.typicality[a]).slice(0, LISTED),
      uncertain: [...members].sort((a, b) => margin[a] - margin[b]).slice(0, LISTED),
    };
  });
  return { ...base, stability: null, names, labels, runnerUp, confidence, margin, clusters };
}
