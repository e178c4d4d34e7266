// What is chosen on the page, and who wants to know when it changes.

import type { Measure } from "./types";

export type Weighting = "raw" | "rollout" | "norm";
export type Order = "place" | Measure;

export interface State {
  group: number;
  layer: number;
  head: number;
  /** The cell that is looked at, in tokens or in words as the matrix shows them. */
  query: number;
  key: number;
  pinned: boolean;
  words: boolean;
  weighting: Weighting;
  /** How all heads are sorted. */
  order: Order;
  /** How one would draw the next token. */
  temperature: number;
  nucleus: number;
}

type Field = keyof State;
type Listener = (changed: Set<Field>) => void;

export class Store {
  state: State;
  private listeners: { fields: Field[]; tell: Listener }[] = [];

  constructor(initial: State) {
    this.state = initial;
  }

  on(fields: Field[], tell: Listener): void {
    this.listeners.push({ fields, tell });
  }

  set(change: Partial<State>): void {
    const changed = new Set<Field>();
    for (const field of Object.keys(change) as Field[]) {
      if (this.state[field] !== change[field]) changed.add(field);
    }
    if (!changed.size) return;
    this.state = { ...this.state, ...change };
    for (const { fields, tell } of this.listeners) if (fields.some((field) => changed.has(field))) tell(changed);
  }
}
