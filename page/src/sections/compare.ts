// Part 10: two runs on one input, side by side.

import { onThemeChange } from "../colour";
import { h, onWidth, replace, section, select } from "../dom";
import { MatrixView } from "../matrixview";
import { count, logarithm, percent } from "../numbers";
import { sameInput, attention } from "../server";
import { headName, readsImages } from "../input";
import type { Payload } from "../types";
import { matrix } from "../weights";

export function compare(payload: Payload): HTMLElement {
  if (payload.against) return section("compare", "Two runs", `One input, two models: ${payload.about.run || "the first"} and ${payload.against.about.run || "the second"}.`, sides(payload, payload.against));
  const others = payload.live ? (payload.models ?? []).filter((name) => name !== payload.about.run && readsImages(payload, name) === readsImages(payload)) : [];
  return section("compare", "Two runs", "One input, two models.", others.length ? choice(payload, others) : hint(payload));
}

function hint(payload: Payload): HTMLElement {
  const command = payload.live ? "regard serve RUN RUN2" : `regard look RUN ${payload.image ? "image.png" : "“text”"} --against RUN2`;
  return h("p", { class: "hint" }, "To compare, name a second run: ", h("code", {}, command), ".");
}

/** Live: any other run of the server that reads the same kind of input. */
function choice(payload: Payload, others: string[]): HTMLElement {
  const shown = h("div");
  let latest = 0;
  const choose = async (model: string) => {
    const request = ++latest;
    if (!model) return replace(shown);
    replace(shown, h("p", { class: "hint", role: "status" }, "Computing …"));
    const result = await attention({ model, ...sameInput(payload), target: payload.target });
    if (request === latest) replace(shown, typeof result === "string" ? h("p", { class: "failed", role: "status" }, result) : sides(payload, result));
  };
  const choices = [{ value: "", label: "no other run" }, ...others.map((name) => ({ value: name, label: name }))];
  return h("div", {}, h("div", { class: "controls" }, select("Compare with", choices, "", (model) => void choose(model))), shown);
}

function sides(payload: Payload, other: Payload): HTMLElement {
  return h("div", {}, h("div", { class: "two" }, side(payload, "left"), side(other, "right")), agreement(payload, other));
}

function side(payload: Payload, index: string): HTMLElement {
  const { about } = payload;
  const facts = [about.kind, about.attention && `${about.attention} attention`, about.position && `${about.position} positions`, about.step === null ? "" : `step ${about.step.toLocaleString("en")}`, `${count(about.parameters)} parameters`].filter(Boolean).join(" · ");
  const answer = payload.generation.classes ? `${payload.generation.classes[0][0]} (${percent(payload.generation.classes[0][1])})` : payload.output;
  return h("div", { class: "panel", "data-side": index }, h("h3", {}, about.run || about.kind), h("p", { class: "side" }, facts), h("p", { class: "output", dir: "auto" }, answer), payload.groups.length ? map(payload) : h("p", { class: "hint" }, "This model has no attention to show."));
}

function map(payload: Payload): HTMLElement {
  const heads = payload.groups.flatMap((group, g) => group.layers.flatMap((layer, l) => Array.from({ length: layer.heads }, (_, n) => ({ value: `${g}.${l}.${n}`, label: headName(group, l, n) }))));
  const readout = h("p", { class: "readout", role: "status" });
  const holder = h("div");
  let chosen = heads[heads.length - 1].value;
  let shown: ReturnType<typeof matrix>;
  const readCell = (cell: { query: number; key: number } | null) => {
    view.mark(cell ?? { query: -1, key: -1 });
    readout.textContent = cell ? `“${shown.rows[cell.query]}” → “${shown.columns[cell.key]}”: ${shown.values[cell.query * shown.columns.length + cell.key].toFixed(3)}` : " ";
  };
  const view = new MatrixView("Matrix of one head of this run; arrow keys move over the cells", { point: readCell, pin: readCell, press: readCell }, () => holder.clientWidth || 480);
  holder.append(view.element);
  const draw = () => {
    const [group, layer, head] = chosen.split(".").map(Number);
    shown = matrix(payload, payload.groups[group], layer, head, "raw", !payload.image);
    view.show(shown);
    readCell(null);
  };
  onWidth(holder, draw);
  onThemeChange(draw);
  return h("div", {}, select("Head", heads, chosen, (value) => { chosen = value; draw(); }), holder, readout);
}

function agreement(one: Payload, other: Payload): HTMLElement | null {
  const left = one.generation.steps;
  const right = other.generation.steps;
  if (!left || !right) return null;
  const same = one.output === other.output;
  const total = (steps: typeof left) => steps.reduce((sum, step) => sum + (step.prompted ? 0 : (step.logprob ?? 0)), 0);
  const summary = same ? "Both outputs are the same." : "The outputs differ.";
  return h("p", { class: "verdict" }, `${summary} Log-probabilities of the outputs (natural logarithm): ${logarithm(total(left))} and ${logarithm(total(right))}.`);
}
