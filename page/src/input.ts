// Facts about a payload that several sections need.

import type { Group, Payload } from "./types";

/** The name of a head, the same everywhere: "cross-attention, layer 1, head 3". */
export function headName(group: Pick<Group, "title">, layer: number, head: number): string {
  return `${group.title.toLowerCase()}, layer ${layer + 1}, head ${head + 1}`;
}

/** The same by its module, as ablated heads are listed. */
export function headOfModule(payload: Payload, module: string, head: number): string {
  for (const group of payload.groups) {
    const layer = group.layers.findIndex((one) => one.module === module);
    if (layer >= 0) return headName(group, layer, head);
  }
  return `${module}, head ${head + 1}`;
}

/** A token without the mark of a space. */
export function plain(token: string): string {
  return token.replaceAll("▁", "") || token;
}

/** What marks in tokens stand for, where there are any. */
export function marks(payload: Payload): string {
  const tokens = [payload.sentences.source, payload.sentences.target].flatMap((sentence) => sentence?.tokens ?? []);
  const has = (mark: string) => tokens.some((token) => token.includes(mark));
  const present = [has("▁") ? "▁ stands for a space" : "", has("↵") ? "↵ for the end of a line" : "", has("<0x") ? "<0x…> for a byte of a character" : ""].filter(Boolean);
  return present.length ? ` In tokens, ${present.join(", ")}.` : "";
}

export function readsImages(payload: Payload, run = payload.about.run): boolean {
  return run === payload.about.run && payload.image !== undefined ? true : (payload.image_models ?? []).includes(run);
}
