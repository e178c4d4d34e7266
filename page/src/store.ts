// The state of the page, and listeners to its changes.

import type { Measure } from "./types";

export type Weighting = "raw" | "rollout" | "norm";
export type Order = "layer" | Measure;

export interface State {
  group: number;
  layer: number;
  head: number;
  /** The marked cell, in tokens or in words as the matrix shows them. */
  query: number;
  key: number;
  pinned: boolean;
  words: boolean;
  weighting: Weighting;
  /** How all heads are sorted. */
  order: Order;
  /** Sampling of the next token. */
  temperature: number;
  nucleus: number;
}

type Field = keyof State;
type Listener = (changed: Set<Field>) => void;

export class Store {
  state: State;
  private listeners: { fields: Field[]; listener: Listener }[] = [];

  constructor(initial: State) {
    this.state = initial;
  }

  on(fields: Field[], listener: Listener): void {
    this.listeners.push({ fields, listener });
  }

  set(change: Partial<State>): void {
    const changed = new Set<Field>();
    for (const field of Object.keys(change) as Field[]) {
      if (this.state[field] !== change[field]) changed.add(field);
    }
    if (!changed.size) return;
    this.state = { ...this.state, ...change };
    for (const { fields, listener } of this.listeners) if (fields.some((field) => changed.has(field))) listener(changed);
  }
}
