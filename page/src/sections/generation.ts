// Part 5: generation step by step, and the tree of the beam search.

import { fitted } from "../matrixview";
import { button, h, replace, s, section, slider } from "../dom";
import { logarithm, percent, reweigh } from "../numbers";
import type { Store } from "../store";
import { marks } from "../input";
import type { Beam, Branch, Payload, Step } from "../types";

export function generation(payload: Payload, store: Store): HTMLElement {
  const { steps, beam, classes } = payload.generation;
  if (classes) {
    return section("generation", "Prediction", "The probability of each label: the softmax over the logits.", bars(classes.map(([label, p]) => ({ label, p, kept: true, chosen: label === classes[0][0] })), 0));
  }
  return section("generation", "Generation", "At each step the softmax over the logits gives every token of the vocabulary a probability. Temperature and top-p change the distribution that is sampled from; both act here at once." + marks(payload),
    steps ? stepper(payload, steps, store) : null, beam ? beamTree(beam) : null);
}

function stepper(payload: Payload, steps: Step[], store: Store): HTMLElement {
  const first = Math.min(Math.max(0, payload.prompt_length - 1), steps.length - 1);
  const state = { step: first };
  const body = h("div", { class: "likely" });
  const prefix = h("p", { class: "prefix", dir: "auto" });
  const tokens = payload.sentences.target!.tokens;
  const draw = () => {
    const step = steps[state.step];
    const token = step.token === null ? "" : readable([step.token]) || step.token;
    const { probabilities, kept, rest } = reweigh(step.top, step.tail, store.state.temperature, store.state.nucleus);
    replace(prefix, h("span", { class: "quiet" }, readable(tokens.slice(0, state.step + 1)).trimStart()), step.token === null ? "" : h("strong", {}, state.step ? token : token.trimStart()),
      h("span", { class: "quiet" }, step.logprob === null ? "" : `  ${step.prompted ? "prompt" : payload.target !== null ? "forced" : "generated"}, log-probability ${logarithm(step.logprob)}`));
    replace(body, h("p", { class: "side" }, step.token === null ? "Probabilities of the next token" : "Probabilities of the token at this step"), bars(step.top.map(([label], index) => ({ label, p: probabilities[index], kept: kept[index], chosen: label === step.token })), rest));
  };
  const at = slider("Step", { min: 0, max: steps.length - 1, step: 1, value: first }, (value) => `${value + 1} of ${steps.length}`, (value) => { state.step = value; draw(); });
  const move = (by: number) => {
    state.step = Math.max(0, Math.min(steps.length - 1, state.step + by));
    at.set(state.step);
    draw();
  };
  draw();
  return h("div", {},
    h("div", { class: "controls" }, at.element, h("span", { class: "buttons" }, button("←", () => move(-1), { "aria-label": "one step back" }), button("→", () => move(1), { "aria-label": "one step on" })),
      slider("Temperature", { min: 0.1, max: 3, step: 0.05, value: store.state.temperature }, (value) => value.toFixed(2), (temperature) => { store.set({ temperature }); draw(); }).element,
      slider("Top-p", { min: 0.05, max: 1, step: 0.01, value: store.state.nucleus }, (value) => value.toFixed(2), (nucleus) => { store.set({ nucleus }); draw(); }).element),
    prefix, body);
}

function readable(tokens: string[]): string {
  return tokens.filter((token) => !/^<(bos|eos|pad)>$/.test(token)).join("").replaceAll("▁", " ");
}

interface Bar {
  label: string;
  p: number;
  kept: boolean;
  chosen: boolean;
}

export function bars(items: Bar[], rest: number): HTMLElement {
  const row = (label: string, p: number, kind: string) => {
    const fill = h("span", { class: "fill" });
    fill.style.width = `${Math.min(100, p * 100)}%`;
    return h("li", { class: kind }, h("span", { class: "label", title: label }, h("bdi", {}, label)), h("span", { class: "track" }, fill), h("span", { class: "amount" }, percent(p)));
  };
  return h("ul", { class: "bars" }, items.map((item) => row(item.label, item.p, `${item.kept ? "" : "dropped"} ${item.chosen ? "chosen" : ""}`)),
    rest > 0 ? row("all others", rest, "rest") : null);
}

const COLUMN = 112;
/** The widest a token of the tree may be. */
const TOKEN = 78;
/** What the number under a token takes. */
const TOTAL = 38;
const ROW = 34;

function beamTree(beam: Beam): HTMLElement {
  let pruned = true;
  const holder = h("div", { class: "scroll tree", tabindex: 0, role: "region", "aria-label": "Tree of the beam" });
  const draw = () => replace(holder, drawing(beam, pruned));
  const box = h("input", { type: "checkbox", checked: true, change: (event: Event) => { pruned = (event.target as HTMLInputElement).checked; draw(); } });
  draw();
  return h("div", {}, h("h3", {}, `A beam of ${beam.size}`),
    h("p", { class: "about" }, "Each column is a step, the likeliest continuation first; numbers are log-probabilities from the start. Dashed branches were pruned; the heavy path is the best hypothesis."),
    h("div", { class: "controls" }, h("label", { class: "field check" }, box, h("span", {}, "show pruned branches"))), holder);
}

/** A column for each step, a row for each rank, so that a long text stays a flat tree. */
function drawing(beam: Beam, pruned: boolean): SVGSVGElement {
  const shown = beam.branches.map((branch, id) => ({ branch, id })).filter(({ branch }) => pruned || branch[5] !== "pruned");
  const rank = new Map<number, number>();
  const filled: number[] = [];
  for (const { branch, id } of shown) {
    filled[branch[1]] = (filled[branch[1]] ?? -1) + 1;
    rank.set(id, filled[branch[1]]);
  }
  const x = (branch: Branch) => 64 + branch[1] * COLUMN;
  const y = (id: number) => 24 + (rank.get(id) ?? 0) * ROW;
  const won = winners(beam);
  const pen = document.createElement("canvas").getContext("2d")!;
  pen.font = `700 12.5px ${getComputedStyle(document.body).fontFamily}`;
  const width = (token: string) => pen.measureText(fitted(pen, token, TOKEN)).width;
  const kind = (id: number, branch: Branch) => `${branch[5]} ${won.has(id) ? "won" : ""}`;
  const edges = shown.map(({ branch, id }) => {
    const parent = branch[0];
    const fromX = parent < 0 ? 40 : x(beam.branches[parent]) + 6 + Math.max(TOTAL, width(beam.branches[parent][2]));
    const fromY = parent < 0 ? 24 : y(parent);
    return s("path", { class: `edge ${kind(id, branch)}`, d: `M${fromX},${fromY} C${(fromX + x(branch)) / 2},${fromY} ${(fromX + x(branch)) / 2},${y(id)} ${x(branch) - 4},${y(id)}` });
  });
  const wide = 64 + COLUMN * filled.length;
  const high = 24 + ROW * (Math.max(...filled) + 1);
  return s("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `Beam tree of ${beam.branches.length} branches; the best hypothesis is: ${beam.text}` },
    s("text", { class: "node", x: 4, y: 28 }, "start"), edges, shown.map(({ branch, id }) => label(branch, fitted(pen, branch[2], TOKEN), x(branch), y(id), kind(id, branch))));
}

function label(branch: Branch, text: string, x: number, y: number, kind: string): SVGGElement {
  const [, , token, logprob, total, fate] = branch;
  return s("g", { transform: `translate(${x},${y})`, class: `leaf ${kind}` },
    s("title", {}, `${token}: log-probability ${logarithm(logprob)}, in all ${logarithm(total)}, ${fate}`),
    s("text", { class: "node", y: 3 }, text),
    s("text", { class: "total", y: 14 }, logarithm(total)));
}

/** The branches of the best finished hypothesis, by its mean log-probability, as the search ranks them. */
export function winners(beam: Beam): Set<number> {
  const ends = beam.branches.map((branch, id) => ({ branch, id })).filter(({ branch }) => branch[5] === "finished");
  const open = beam.branches.map((branch, id) => ({ branch, id })).filter(({ branch }) => branch[5] === "kept");
  const last = Math.max(...open.map(({ branch }) => branch[1]), 0);
  const among = ends.length ? ends : open.filter(({ branch }) => branch[1] === last);
  const best = among.reduce((a, b) => (b.branch[4] / (b.branch[1] + 1) > a.branch[4] / (a.branch[1] + 1) ? b : a), among[0]);
  const path = new Set<number>();
  for (let id = best?.id ?? -1; id >= 0; id = beam.branches[id][0]) path.add(id);
  return path;
}
