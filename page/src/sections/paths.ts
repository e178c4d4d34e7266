// Part 7: path lengths between two tokens: recurrent, windowed attention, full attention, this model.

import { chart } from "../chart";
import { button, h, onWidth, replace, s, section, select } from "../dom";
import { floats } from "../numbers";
import { plain } from "../input";
import type { Paths, Payload } from "../types";

const WIDEST = 960;
/** Where names of lanes have no room on the left, they stand above. */
const NARROW = 700;
const LANE = 96;
const BEAT = 420;
/** What a token's text takes. */
const LABEL = 29;
/** The longest that the animation may take, in steps: a long way is walked faster. */
const BEATS = 24;

interface Lane {
  name: string;
  stops: number[];
  length: string;
}

export function paths(payload: Payload): HTMLElement {
  const data = payload.paths;
  const title = "Path lengths";
  if (!data) return section("paths", title, "How far information travels was not measured for this input.");
  const tokens = payload.sentences[data.side]!.tokens;
  const state = { from: start(tokens), to: Math.max(0, tokens.length - 2) };
  const stage = h("div", { class: "scroll stage", tabindex: 0, role: "region", "aria-label": "Paths between two tokens" });
  const facts = h("p", { class: "readout", role: "status" });
  let timer = 0;
  const draw = (beat: number) => replace(stage, drawing(tokens, lanes(data, state.from, state.to), beat, Math.min(WIDEST, stage.clientWidth || WIDEST)));
  const settle = () => {
    cancelAnimationFrame(timer);
    draw(Infinity);
    facts.textContent = pathText(data, tokens.map(plain), state.from, state.to);
  };
  const play = () => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return settle();
    const begun = performance.now();
    const longest = Math.max(...lanes(data, state.from, state.to).map((lane) => lane.stops.length));
    const frame = (now: number) => {
      const beat = ((now - begun) / BEAT) * Math.max(1, longest / BEATS);
      draw(beat);
      if (beat < longest) timer = requestAnimationFrame(frame);
      else settle();
    };
    cancelAnimationFrame(timer);
    timer = requestAnimationFrame(frame);
  };
  const choices = tokens.map((text, index) => ({ value: String(index), label: `${index + 1}: ${text}` }));
  const controls = h("div", { class: "controls" },
    select("From", choices, String(state.from), (value) => { state.from = Number(value); settle(); }),
    select("To", choices, String(state.to), (value) => { state.to = Number(value); settle(); }),
    button("Play", play, { class: "primary", id: "play-paths" }));
  settle();
  onWidth(stage, settle);
  const measured = h("figure", {}, chart([{ x: data.by_distance.map((_, index) => index), y: data.by_distance }], { x: "distance in tokens", y: "share of influence", about: "Influence by distance, measured by gradients" }),
    h("figcaption", {}, `Measured on this model: gradient of a token’s last hidden vector with respect to the input vector of another, by distance (${data.queries.length} tokens)`));
  return section("paths", title, "The longer the path between two tokens, the harder it is to learn a dependency between them.", controls, stage, facts, measured);
}

function start(tokens: string[]): number {
  const index = tokens.findIndex((text) => text.replace("▁", "") === "animal");
  return index < 0 ? 0 : index;
}

export function lanes(data: Paths, from: number, to: number): Lane[] {
  const way = Math.sign(to - from) || 1;
  const apart = Math.abs(to - from);
  const reach = data.reach ?? 2;
  const walk = (by: number) => {
    const stops = [from];
    while (stops[stops.length - 1] !== to) stops.push(from + way * Math.min(apart, Math.abs(stops[stops.length - 1] - from) + by));
    return stops;
  };
  const count = (number: number, what: string) => `${number} ${what}${number === 1 ? "" : "s"}`;
  return [
    { name: "Recurrent", stops: walk(1), length: count(apart, "step") },
    { name: `Window of ${reach}`, stops: walk(reach), length: count(Math.ceil(apart / reach), "layer") },
    { name: "Attention", stops: apart ? [from, to] : [from], length: count(apart ? 1 : 0, "layer") },
  ];
}

function pathText(data: Paths, tokens: string[], from: number, to: number): string {
  const graph = data.graph?.[to]?.[from];
  const here = graph === undefined
    ? `In this model (${data.kind}) information passes from position to position`
    : graph < 0
      ? `In this model no path leads from “${tokens[from]}” to “${tokens[to]}”: the mask does not allow it`
      : `In this model (${data.attention} attention, ${data.layers} layers) at least ${graph} ${graph === 1 ? "layer lies" : "layers lie"} between “${tokens[from]}” and “${tokens[to]}”`;
  return `${here}. ${influenceText(data, tokens, from, to)}`;
}

function influenceText(data: Paths, tokens: string[], from: number, to: number): string {
  const row = data.queries.indexOf(to);
  if (row < 0) return "";
  const all = floats(data.influence);
  const wide = all.length / data.queries.length;
  const values = all.subarray(row * wide, (row + 1) * wide);
  const total = values.reduce((sum, value) => sum + value, 0);
  return from < wide ? `By gradient, “${tokens[from]}” has ${((100 * values[from]) / total).toFixed(1)} % of all influence on “${tokens[to]}”.` : "";
}

function drawing(tokens: string[], all: Lane[], beat: number, wide: number): SVGSVGElement {
  const narrow = wide < NARROW;
  const left = narrow ? 24 : 150;
  const every = Math.ceil(tokens.length / Math.floor((wide - left) / LABEL));
  const dense = tokens.length * 8 > wide;
  const small = dense ? 0.4 : 1;
  const x = (index: number) => left + ((wide - left - 30) * index) / Math.max(1, tokens.length - 1);
  const parts = all.flatMap((lane, number) => {
    const y = LANE * (number + 0.7);
    const dots = tokens.map((_, index) => s("circle", { cx: x(index), cy: y, r: (lane.stops.includes(index) ? 4.5 : 3) * small, class: lane.stops.includes(index) ? "stop" : "dot" }));
    const arcs = lane.stops.slice(1).map((stop, hop) => {
      const done = Math.max(0, Math.min(1, beat - hop));
      if (!done) return null;
      const before = lane.stops[hop];
      const rise = Math.min(46, 12 + Math.abs(x(stop) - x(before)) / 6);
      return s("path", { class: done < 1 ? "hop moving" : "hop", pathLength: 1, "stroke-dasharray": done < 1 ? `${done} 1` : null, d: `M${x(before)},${y} Q${(x(before) + x(stop)) / 2},${y - rise * 2} ${x(stop)},${y}` });
    });
    return [...dots, ...arcs, s("text", { x: 0, y: narrow ? y - 52 : y - 2, class: "lane" }, lane.name), s("text", { x: narrow ? wide : 0, y: narrow ? y - 52 : y + 16, "text-anchor": narrow ? "end" : "start", class: "count" }, lane.length)];
  });
  const ends = [all[0].stops[0], all[0].stops[all[0].stops.length - 1]];
  const named = (index: number) => ends.includes(index) || (index % every === 0 && ends.every((end) => Math.abs(end - index) >= every));
  const names = tokens.map((text, index) => named(index) && s("text", { "text-anchor": "end", class: ends.includes(index) ? "token end" : "token", transform: `translate(${x(index) + 4},${LANE * 2.7 + 20}) rotate(-45)` }, text.length > 12 ? `${text.slice(0, 11)}…` : text));
  return s("svg", { viewBox: `0 0 ${wide} ${LANE * 3 + 70}`, width: wide, class: dense ? "paths dense" : "paths", role: "img", "aria-label": all.map((lane) => `${lane.name}: ${lane.length}`).join("; ") }, parts.filter((part) => part !== null), names);
}
