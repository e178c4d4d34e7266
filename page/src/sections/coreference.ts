// Part 8: what "it" refers to. Two sentences that differ in one word, side by side, with an ablation of every head.

import { colours, diverging, onThemeChange, readableOn } from "../colour";
import { h, replace, section, select } from "../dom";
import { headName } from "../input";
import type { Coreference, CoreferenceSentence, Payload } from "../types";
import { bars } from "./generation";

const TITLES = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention" };

export function coreference(payload: Payload): HTMLElement {
  const data = payload.coreference;
  const title = "What does “it” refer to?";
  if (!data) return section("coreference", title, payload.shape === "pair" ? "The two sentences of the lectures were not tried on this model." : "The two sentences of the lectures need a translation model; this model is none.");
  const state = { head: strongest(data), off: false };
  const body = h("div", { class: "two" });
  const difference = h("div");
  const verdict = h("p", { class: data.right ? "verdict" : "verdict failed" }, verdictOf(data));
  const draw = () => {
    replace(body, ...data.sentences.map((sentence) => panel(data, sentence, state.head, state.off)));
    replace(difference, ...differences(data, state.head));
  };
  const box = h("input", { type: "checkbox", id: "head-off", change: (event: Event) => { state.off = (event.target as HTMLInputElement).checked; draw(); } });
  const ranked = data.heads.map((_, index) => index).sort((a, b) => effect(data, b) - effect(data, a));
  const choices = ranked.map((index) => ({ value: String(index), label: `${name(data, index)}: ${(100 * effect(data, index)).toFixed(1)} points` }));
  const controls = data.heads.length
    ? h("div", { class: "controls" }, select("Head, and the largest change of a pronoun’s probability without it", choices, String(state.head), (value) => { state.head = Number(value); draw(); }), h("label", { class: "field check" }, box, h("span", {}, "switch this head off")))
    : h("p", { class: "hint" }, "This model has no attention heads to switch off.");
  onThemeChange(draw);
  draw();
  return section("coreference", title, "One word decides whether “it” refers to the animal or the street; the gender of the German pronoun shows which: es for das Tier, sie for die Straße.", verdict, controls, body, difference);
}

function verdictOf(data: Coreference): string {
  if (data.right) return "This model gets both right.";
  const wrong = data.sentences.filter((sentence) => !sentence.right).length;
  return wrong === data.sentences.length ? "This model gets neither of the two right; what follows shows how it fails." : "This model gets only one of the two right; what follows shows how the other fails.";
}

function name(data: Coreference, index: number): string {
  const { group, layer, head } = data.heads[index];
  return headName({ title: TITLES[group] }, layer, head);
}

/** The largest change of a pronoun's probability when a head is off, in either sentence. */
export function effect(data: Coreference, index: number): number {
  const changes = data.sentences.flatMap((sentence) => sentence.without[index].map((p, pronoun) => Math.abs(p - sentence.probabilities[pronoun])));
  return Math.max(0, ...changes);
}

function strongest(data: Coreference): number {
  let best = 0;
  data.heads.forEach((_, index) => { if (effect(data, index) > effect(data, best)) best = index; });
  return best;
}

function panel(data: Coreference, sentence: CoreferenceSentence, head: number, off: boolean): HTMLElement {
  const chances = off && data.heads.length ? sentence.without[head] : sentence.probabilities;
  const items = data.pronouns.map((label, index) => ({ label, p: chances[index], kept: true, chosen: label === sentence.pronoun }));
  const rest = Math.max(0, 1 - chances.reduce((sum, p) => sum + p, 0));
  const moved = data.pronouns.map((label, index) => ({ label, by: chances[index] - sentence.probabilities[index] })).filter((one) => Math.abs(one.by) >= 0.0005);
  return h("div", { class: "panel" },
    h("p", { class: "source" }, sentence.source),
    h("p", { class: sentence.right ? "output" : "output wrong" }, sentence.translation, h("span", { class: "mark" }, sentence.right ? " ✓" : ` ✗ expected: ${sentence.expected}`)),
    h("p", { class: "side" }, off ? `the pronoun's probabilities without ${name(data, head)}` : "the pronoun's probabilities"),
    bars(items, rest),
    h("p", { class: "moves" }, !off ? " " : moved.length ? moved.map((one) => `${one.label} ${one.by > 0 ? "+" : "−"}${Math.abs(100 * one.by).toFixed(1)}`).join(" · ") + " points" : "no change"),
    data.heads.length ? attended(data, sentence, head) : null);
}

function attended(data: Coreference, sentence: CoreferenceSentence, head: number): HTMLElement {
  const group = data.heads[head].group;
  const words = sentence.words[group === "decoder" ? "target" : "source"];
  const who = group === "encoder" ? "the query at “it” attends to" : "the query at the pronoun attends to";
  return h("div", {}, h("p", { class: "side" }, `${who} (${name(data, head)})`), h("p", { class: "words shaded" }, words.map((word, index) => shaded(word, sentence.attention[head][index] ?? 0, `${(sentence.attention[head][index] ?? 0).toFixed(3)}`))));
}

function shaded(word: string, value: number, title: string): HTMLElement {
  const piece = h("span", { class: "shade", title }, word);
  const colour = diverging(value, colours());
  piece.style.background = colour;
  piece.style.color = readableOn(colour);
  return piece;
}

function differences(data: Coreference, head: number): HTMLElement[] {
  if (!data.heads.length || data.sentences.length < 2) return [];
  const group = data.heads[head].group;
  const [one, other] = data.sentences;
  const side = group === "decoder" ? "target" : "source";
  const words = one.words[side].map((word, index) => (word === other.words[side][index] ? word : `${word}/${other.words[side][index] ?? ""}`));
  const by = words.map((_, index) => (other.attention[head][index] ?? 0) - (one.attention[head][index] ?? 0));
  return [h("p", { class: "side" }, "difference: the second sentence minus the first", h("br"), "blue: more weight in the second, orange: in the first"),
    h("p", { class: "words shaded" }, words.map((word, index) => shaded(word, by[index], `${by[index] >= 0 ? "+" : "−"}${Math.abs(by[index]).toFixed(3)}`)))];
}
