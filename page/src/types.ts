// The payload: what `regard.look.trace` writes, field by field.

export interface Sentence {
  tokens: string[];
  words: number[];
  texts: string[];
}

export interface Steps {
  queries: number[];
  scores: string;
  scaled: string;
  allowed: string;
}

export interface Vectors {
  width: number;
  shown: number;
  query: string;
  key: string;
  value: string;
}

export type Measure = "entropy" | "distance" | "previous" | "alignment";

export interface Layer {
  module: string;
  heads: number;
  queries: number;
  keys: number;
  scale: number;
  weights: string;
  measures: Record<Measure, number[]>;
  steps: Steps;
  norms?: number[][];
  vectors?: Vectors;
}

export type Side = "source" | "target";

export interface Group {
  name: "encoder" | "decoder" | "cross";
  title: string;
  queries: Side;
  keys: Side;
  layers: Layer[];
  rollout: string[];
}

export interface Step {
  token: string | null;
  logprob: number | null;
  given: boolean;
  top: [string, number][];
  tail: [number, number][];
}

export type Fate = "kept" | "finished" | "pruned";
export type Branch = [parent: number, step: number, token: string, logprob: number, total: number, fate: Fate];

export interface Beam {
  size: number;
  text: string;
  score: number;
  branches: Branch[];
}

export interface Signed {
  scale: number;
  bytes: string;
}

export interface Positions {
  kind: string;
  about: string;
  places?: number;
  numbers?: number;
  vectors?: Signed;
  similarity?: Signed;
  by_offset?: number[];
  speeds?: number[];
  bias?: { module: string; heads: number[][] }[];
}

export interface Shuffle {
  text: string;
  tokens: string[];
  from: number[];
  similarity: number[];
  output: string;
}

export interface Paths {
  side: Side;
  kind: string;
  attention: string;
  reach: number | null;
  layers: number;
  graph?: number[][];
  queries: number[];
  influence: string;
  by_distance: number[];
}

export interface CoreferenceSentence {
  source: string;
  expected: string;
  translation: string;
  right: boolean;
  pronoun: string;
  words: Record<Side, string[]>;
  it: number | null;
  looks: number[][];
  probabilities: number[];
  without: number[][];
}

export interface Coreference {
  pronouns: string[];
  heads: { group: Group["name"]; layer: number; head: number; module: string }[];
  sentences: CoreferenceSentence[];
  right: boolean;
}

export type MetricLine = Record<string, number | string | null>;

export interface Snapshot {
  step: number;
  weights: Partial<Record<Group["name"], string[]>>;
}

export interface About {
  run: string;
  step: number | null;
  task: string;
  kind: string;
  width: number | null;
  depth: number | null;
  heads: number | null;
  attention: string;
  position: string;
  parameters: number;
  attends: boolean;
}

export interface Picture {
  size: number;
  patch: number;
  class_token: boolean;
  pixels: string;
}

/** An image file as it is sent to the server: its bytes in base64. */
export interface ImageFile {
  name: string;
  data: string;
}

export interface Payload {
  version: number;
  live?: boolean;
  /** Why there is nothing to look at yet; the page then has its form and the training only. */
  blank?: string;
  about: About;
  text: string;
  target: string | null;
  output: string;
  shape: "pair" | "text" | "label";
  given: number;
  sentences: Record<Side, Sentence | null>;
  image?: Picture;
  groups: Group[];
  options: Record<string, unknown>;
  generation: { steps?: Step[]; beam?: Beam; classes?: [string, number][] };
  positions: Positions;
  shuffles: Shuffle[];
  paths: Paths | null;
  coreference: Coreference | null;
  snapshots: Snapshot[];
  training?: MetricLine[];
  against?: Payload;
  /** Live: all runs of the server, those that read images, the largest file they take, and the image of this page. */
  models?: string[];
  image_models?: string[];
  image_bytes?: number;
  file?: ImageFile;
}

/** A token in a sentence about it: without the mark of a space. */
export function plain(token: string): string {
  return token.replaceAll("▁", "") || token;
}

/** What marks in tokens stand for, where there are any. */
export function marks(payload: Payload): string {
  const tokens = [payload.sentences.source, payload.sentences.target].flatMap((sentence) => sentence?.tokens ?? []);
  const has = (mark: string) => tokens.some((token) => token.includes(mark));
  const found = [has("▁") ? "▁ stands for a space" : "", has("↵") ? "↵ for the end of a line" : "", has("<0x") ? "<0x…> for a byte of a character" : ""].filter(Boolean);
  return found.length ? ` In tokens, ${found.join(", ")}.` : "";
}

export function readsImages(payload: Payload, run = payload.about.run): boolean {
  return run === payload.about.run && payload.image !== undefined ? true : (payload.image_models ?? []).includes(run);
}
