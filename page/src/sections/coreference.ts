// Part 8: what 'it' means. Two sentences that differ in one word, side by side, and a switch for every head.

import { colours, diverging, onThemeChange, readableOn } from "../colour";
import { h, replace, section, select } from "../dom";
import type { Coreference, CoreferenceSentence, Payload } from "../types";
import { bars } from "./generation";

const NAMES = { encoder: "encoder", decoder: "decoder", cross: "cross-attention" };

export function coreference(payload: Payload): HTMLElement {
  const own = payload.coreference;
  const title = "What does “it” mean?";
  if (!own) return section("coreference", title, payload.shape === "pair" ? "The two sentences of the lectures were not tried on this model." : "The two sentences of the lectures ask for a model that translates; this one does not.");
  const state = { head: strongest(own), off: false };
  const body = h("div", { class: "two" });
  const difference = h("div");
  const verdict = h("p", { class: own.right ? "verdict" : "verdict failed" }, judged(own));
  const draw = () => {
    replace(body, ...own.sentences.map((sentence) => panel(own, sentence, state.head, state.off)));
    replace(difference, ...differences(own, state.head));
  };
  const box = h("input", { type: "checkbox", id: "head-off", change: (event: Event) => { state.off = (event.target as HTMLInputElement).checked; draw(); } });
  const ranked = own.heads.map((_, place) => place).sort((a, b) => effect(own, b) - effect(own, a));
  const choices = ranked.map((place) => ({ value: String(place), label: `${name(own, place)}: ${(100 * effect(own, place)).toFixed(1)} points` }));
  const controls = own.heads.length
    ? h("div", { class: "controls" }, select("Head, and how far it moves the pronoun when off", choices, String(state.head), (value) => { state.head = Number(value); draw(); }), h("label", { class: "field check" }, box, h("span", {}, "switch this head off")))
    : h("p", { class: "hint" }, "This model has no attention heads to switch off.");
  onThemeChange(draw);
  draw();
  return section("coreference", title, "One word decides whether the animal or the street is meant; the German pronoun tells what the model understood: es for das Tier, sie for die Straße.", verdict, controls, body, difference);
}

function judged(own: Coreference): string {
  if (own.right) return "This model gets both right.";
  const wrong = own.sentences.filter((sentence) => !sentence.right).length;
  return wrong === own.sentences.length ? "This model gets neither of the two right; what follows shows how it fails." : "This model gets only one of the two right; what follows shows how the other fails.";
}

function name(own: Coreference, place: number): string {
  const { group, layer, head } = own.heads[place];
  return `${NAMES[group]}, layer ${layer + 1}, head ${head + 1}`;
}

/** The largest change of a pronoun's probability when a head is off, in either sentence. */
export function effect(own: Coreference, place: number): number {
  const changes = own.sentences.flatMap((sentence) => sentence.without[place].map((p, pronoun) => Math.abs(p - sentence.probabilities[pronoun])));
  return Math.max(0, ...changes);
}

function strongest(own: Coreference): number {
  let best = 0;
  own.heads.forEach((_, place) => { if (effect(own, place) > effect(own, best)) best = place; });
  return best;
}

function panel(own: Coreference, sentence: CoreferenceSentence, head: number, off: boolean): HTMLElement {
  const chances = off && own.heads.length ? sentence.without[head] : sentence.probabilities;
  const items = own.pronouns.map((label, place) => ({ label, p: chances[place], kept: true, chosen: label === sentence.pronoun }));
  const rest = Math.max(0, 1 - chances.reduce((sum, p) => sum + p, 0));
  const moved = own.pronouns.map((label, place) => ({ label, by: chances[place] - sentence.probabilities[place] })).filter((one) => Math.abs(one.by) >= 0.0005);
  return h("div", { class: "panel" },
    h("p", { class: "said" }, sentence.source),
    h("p", { class: sentence.right ? "heard" : "heard wrong" }, sentence.translation, h("span", { class: "mark" }, sentence.right ? " ✓" : ` ✗ expected: ${sentence.expected}`)),
    h("p", { class: "side" }, off ? `the pronoun's probabilities without ${name(own, head)}` : "the pronoun's probabilities"),
    bars(items, rest),
    h("p", { class: "moves" }, !off ? " " : moved.length ? moved.map((one) => `${one.label} ${one.by > 0 ? "+" : "−"}${Math.abs(100 * one.by).toFixed(1)}`).join(" · ") + " points" : "nothing moves"),
    own.heads.length ? looks(own, sentence, head) : null);
}

function looks(own: Coreference, sentence: CoreferenceSentence, head: number): HTMLElement {
  const group = own.heads[head].group;
  const words = sentence.words[group === "decoder" ? "target" : "source"];
  const who = group === "encoder" ? "“it” looks at" : "the place of the pronoun looks at";
  return h("div", {}, h("p", { class: "side" }, `${who} (${name(own, head)})`), h("p", { class: "words shaded" }, words.map((word, place) => shaded(word, sentence.looks[head][place] ?? 0, `${(sentence.looks[head][place] ?? 0).toFixed(3)}`))));
}

function shaded(word: string, value: number, title: string): HTMLElement {
  const piece = h("span", { class: "look", title }, word);
  const colour = diverging(value, colours());
  piece.style.background = colour;
  piece.style.color = readableOn(colour);
  return piece;
}

function differences(own: Coreference, head: number): HTMLElement[] {
  if (!own.heads.length || own.sentences.length < 2) return [];
  const group = own.heads[head].group;
  const [one, other] = own.sentences;
  const side = group === "decoder" ? "target" : "source";
  const words = one.words[side].map((word, place) => (word === other.words[side][place] ? word : `${word}/${other.words[side][place] ?? ""}`));
  const by = words.map((_, place) => (other.looks[head][place] ?? 0) - (one.looks[head][place] ?? 0));
  return [h("p", { class: "side" }, "difference: the second sentence minus the first", h("br"), "blue: the second looks there more; orange: the first does"),
    h("p", { class: "words shaded" }, words.map((word, place) => shaded(word, by[place], `${by[place] >= 0 ? "+" : "−"}${Math.abs(by[place]).toFixed(3)}`)))];
}
