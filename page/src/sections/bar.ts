// Part 1: what is read and what is written, words or an image. Live, another input runs the model again.

import { h } from "../dom";
import type { Store } from "../store";
import { readsImages, type Payload, type Side } from "../types";
import type { Ask } from "../server";
import { asking } from "./asking";
import { picture } from "./picture";

export function bar(payload: Payload, store: Store, ask: Ask): HTMLElement {
  const images = readsImages(payload);
  const words = [
    sentence(payload, store, "source", payload.shape === "label" ? "The model reads" : "It reads"),
    sentence(payload, store, "target", written(payload)),
    payload.generation.classes ? verdict(payload) : null,
    payload.live ? asking(payload, ask) : fixed(images),
  ];
  return h("section", { id: "sentence", class: "bar", "aria-label": images ? "Image" : "Sentence" },
    images ? h("div", { class: "pictured" }, seen(payload, store), h("div", {}, words)) : words);
}

function written(payload: Payload): string {
  if (payload.target !== null) return "It is made to write";
  return payload.shape === "text" ? "Given, then written" : "It writes";
}

function seen(payload: Payload, store: Store): HTMLElement {
  if (!payload.image) return h("p", { class: "drop" }, "Drop an image here, or choose a file.");
  return h("figure", { class: "seen" }, picture(payload, store, true), h("figcaption", {}, caption(payload)));
}

/** What the image is, and what can be done with it. */
function caption(payload: Payload): string {
  const { size, patch } = payload.image!;
  const name = payload.file ? `${payload.file.name}, as` : "As";
  return `${name} the model sees it: ${size} × ${size} pixels in patches of ${patch} × ${patch}. Point at one to see what the chosen head looks at from there.`;
}

function sentence(payload: Payload, store: Store, side: Side, title: string): HTMLElement | null {
  const own = payload.sentences[side];
  if (!own || (payload.image && side === "source")) return null;
  const spaced = own.tokens.some((token) => token.includes("▁"));
  const special = (text: string) => /^<\w+>$/.test(text);
  const joins = (word: number) => spaced && !special(own.texts[word - 1]) && !/^[▁<↵]/.test(own.tokens[own.words.indexOf(word)]);
  const kind = (text: string, word: number) => {
    const given = side === "target" && own.words.indexOf(word) < payload.given;
    return given || special(text) ? "word given" : "word";
  };
  const words = own.texts.flatMap((text, word) => [
    word > 0 && !joins(word) ? " " : "",
    h("button", { type: "button", class: kind(text, word), dir: special(text) ? "ltr" : null, "data-side": side, "data-word": word, click: () => look(payload, store, side, word) }, text),
    text.endsWith("↵") && word < own.texts.length - 1 ? h("br") : "",
  ]);
  return h("div", { class: "sentence" }, h("span", { class: "side" }, title), h("p", { class: "words", dir: "auto" }, words));
}

/** Pins a word as the query, in a group where it is one. */
function look(payload: Payload, store: Store, side: Side, word: number): void {
  const own = payload.sentences[side];
  const fits = (place: number) => payload.groups[place]?.queries === side;
  const group = fits(store.state.group) ? store.state.group : payload.groups.findIndex((one) => one.queries === side);
  if (group < 0 || !own) return;
  const query = store.state.words ? word : own.words.indexOf(word);
  const layers = payload.groups[group].layers;
  const layer = Math.min(store.state.layer, layers.length - 1);
  store.set({ group, layer, head: Math.min(store.state.head, layers[layer].heads - 1), query, key: -1, pinned: true });
}

function verdict(payload: Payload): HTMLElement {
  const [label, p] = payload.generation.classes![0];
  return h("div", { class: "sentence" }, h("span", { class: "side" }, "It answers"), h("p", { class: "words" }, h("strong", {}, label), ` with probability ${p.toFixed(3)}`));
}

function fixed(images: boolean): HTMLElement {
  return images
    ? h("p", { class: "hint" }, "This page is a file, so its image is fixed. Run ", h("code", {}, "regard serve RUN"), " to choose another, or ", h("code", {}, "regard look RUN another.png"), " for another page.")
    : h("p", { class: "hint" }, "This page is a file, so its text is fixed. Run ", h("code", {}, "regard serve RUN"), " to edit it, or ", h("code", {}, "regard look RUN “another text”"), " for another page.");
}
