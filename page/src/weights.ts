// The matrix that a view shows: raw weights, attention rollout, or weights times the norms of the values.

import { bytes, floats, softmax } from "./numbers";
import type { CheckpointWeights, Group, Layer, Payload, SentenceTokens as Sentence } from "./types";
import type { Weighting } from "./store";

export interface Matrix {
  rows: string[];
  columns: string[];
  values: Float32Array;
  /** Whether the numbers are exact, not read from 8 bits. */
  exact: boolean;
}

const cache = new WeakMap<object, Map<string, any>>();

function once<T>(owner: object, name: string, make: () => T): T {
  let known = cache.get(owner);
  if (!known) cache.set(owner, (known = new Map()));
  if (!known.has(name)) known.set(name, make());
  return known.get(name) as T;
}

export function layerBytes(layer: Layer): Uint8Array {
  return once(layer, "bytes", () => bytes(layer.weights));
}

/** All weights of one head, exact where the page holds the scores of every query. */
export function headWeights(layer: Layer, head: number): { values: Float32Array; exact: boolean } {
  return once(layer, `head ${head}`, () => {
    const size = layer.queries * layer.keys;
    const packed = layerBytes(layer).subarray(head * size, (head + 1) * size);
    const values = Float32Array.from(packed, (byte) => byte / 255);
    const exactRows = layer.steps.queries;
    exactRows.forEach((query) => values.set(exactRow(layer, head, query)!.weights, query * layer.keys));
    return { values, exact: exactRows.length === layer.queries };
  });
}

export interface ExactRow {
  scores: Float32Array;
  scaled: Float32Array;
  allowed: Uint8Array;
  weights: Float32Array;
}

/** The exact scores of one query; null where the page does not hold them. */
export function exactRow(layer: Layer, head: number, query: number): ExactRow | null {
  const index = layer.steps.queries.indexOf(query);
  if (index < 0) return null;
  const { scores, scaled, allowed } = once(layer, "steps", () => ({
    scores: floats(layer.steps.scores),
    scaled: floats(layer.steps.scaled),
    allowed: bytes(layer.steps.allowed),
  }));
  const start = (head * layer.steps.queries.length + index) * layer.keys;
  const cut = <A extends Float32Array | Uint8Array>(all: A) => all.subarray(start, start + layer.keys) as A;
  return { scores: cut(scores), scaled: cut(scaled), allowed: cut(allowed), weights: softmax(cut(scaled), cut(allowed)) };
}

export interface HeadVectors {
  shown: number;
  width: number;
  query: Float32Array | null;
  key: (index: number) => Float32Array;
  value: (index: number) => Float32Array;
}

export function vectors(layer: Layer, head: number, query: number): HeadVectors | null {
  const packed = layer.vectors;
  if (!packed) return null;
  const all = once(layer, "vectors", () => ({ query: floats(packed.query), key: floats(packed.key), value: floats(packed.value) }));
  const at = (from: Float32Array, count: number, index: number) => {
    const start = (head * count + index) * packed.shown;
    return from.subarray(start, start + packed.shown);
  };
  const index = layer.steps.queries.indexOf(query);
  return {
    shown: packed.shown,
    width: packed.width,
    query: index < 0 ? null : at(all.query, layer.steps.queries.length, index),
    key: (key) => at(all.key, layer.keys, key),
    value: (key) => at(all.value, layer.keys, key),
  };
}

export function labels(payload: Payload, group: Group, layer: Layer): { rows: Sentence; columns: Sentence } {
  return {
    rows: fitting(payload.sentences[group.queries], layer.queries, layer.queries === layer.keys),
    columns: fitting(payload.sentences[group.keys], layer.keys, layer.queries === layer.keys),
  };
}

/** Learned tokens stand in front of a sentence; where keys are compressed or projected they are no tokens at all. */
function fitting(sentence: Sentence | null, count: number, square: boolean): Sentence {
  const length = sentence?.tokens.length ?? 0;
  if (sentence && length === count) return sentence;
  const extra = sentence && square && count > length ? count - length : count;
  const indices = Array.from({ length: extra }, (_, index) => index);
  const names = indices.map((index) => (extra < count ? `<added ${index + 1}>` : `#${index + 1}`));
  if (!sentence || extra === count) return { tokens: names, words: indices, texts: names };
  return { tokens: [...names, ...sentence.tokens], words: [...indices, ...sentence.words.map((word) => word + extra)], texts: [...names, ...sentence.texts] };
}

export function matrix(payload: Payload, group: Group, at: number, head: number, weighting: Weighting, words: boolean): Matrix {
  const layer = group.layers[at];
  const { rows, columns } = labels(payload, group, layer);
  let { values, exact } = headWeights(layer, head);
  if (weighting === "rollout" && group.rollout[at]) {
    values = once(layer, "rollout", () => Float32Array.from(bytes(group.rollout[at]), (byte) => byte / 255));
    exact = false;
  } else if (weighting === "norm" && layer.norms) {
    values = weighed(values, layer.norms[head], layer.keys);
  }
  const result = { rows: rows.tokens, columns: columns.tokens, values, exact };
  return words ? merged(result, rows, columns) : result;
}

/** Each weight times the norm of its value, as a share of its row. */
export function weighed(values: Float32Array, norms: number[], keys: number): Float32Array {
  const result = new Float32Array(values.length);
  for (let start = 0; start < values.length; start += keys) {
    let total = 0;
    for (let key = 0; key < keys; key++) total += values[start + key] * norms[key];
    for (let key = 0; key < keys; key++) result[start + key] = total ? (values[start + key] * norms[key]) / total : 0;
  }
  return result;
}

/** Words instead of their pieces: weights on a word's pieces are added, those from its pieces averaged. */
export function merged(from: Matrix, rows: Sentence, columns: Sentence): Matrix {
  const high = rows.words[rows.words.length - 1] + 1;
  const wide = columns.words[columns.words.length - 1] + 1;
  const values = new Float32Array(high * wide);
  const pieces = new Float32Array(high);
  rows.words.forEach((word) => pieces[word]++);
  rows.words.forEach((row, query) => {
    columns.words.forEach((column, key) => {
      values[row * wide + column] += from.values[query * columns.words.length + key] / pieces[row];
    });
  });
  return { rows: rows.texts, columns: columns.texts, values, exact: from.exact };
}

export function snapshotWeights(snapshot: CheckpointWeights, group: Group, layer: number, head: number): Float32Array | null {
  const packed = snapshot.weights[group.name]?.[layer];
  if (!packed) return null;
  const all = once(snapshot, `${group.name} ${layer}`, () => bytes(packed));
  const size = group.layers[layer].queries * group.layers[layer].keys;
  return Float32Array.from(all.subarray(head * size, (head + 1) * size), (byte) => byte / 255);
}
