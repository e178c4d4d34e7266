// Part 7: how many steps lie between two tokens: in a recurrent network, in a window, in full attention, in this model.

import { chart } from "../chart";
import { button, h, onWidth, replace, s, section, select } from "../dom";
import { floats } from "../numbers";
import { plain, type Paths, type Payload } from "../types";

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
  told: string;
}

export function paths(payload: Payload): HTMLElement {
  const own = payload.paths;
  const title = "Path lengths";
  if (!own) return section("paths", title, "How far information travels was not measured for this input.");
  const tokens = payload.sentences[own.side]!.tokens;
  const state = { from: start(tokens), to: Math.max(0, tokens.length - 2) };
  const stage = h("div", { class: "scroll stage", tabindex: 0, role: "region", "aria-label": "Paths between two tokens" });
  const facts = h("p", { class: "readout", role: "status" });
  let timer = 0;
  const draw = (beat: number) => replace(stage, drawing(tokens, lanes(own, state.from, state.to), beat, Math.min(WIDEST, stage.clientWidth || WIDEST)));
  const settle = () => {
    cancelAnimationFrame(timer);
    draw(Infinity);
    facts.textContent = told(own, tokens.map(plain), state.from, state.to);
  };
  const play = () => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return settle();
    const begun = performance.now();
    const longest = Math.max(...lanes(own, state.from, state.to).map((lane) => lane.stops.length));
    const frame = (now: number) => {
      const beat = ((now - begun) / BEAT) * Math.max(1, longest / BEATS);
      draw(beat);
      if (beat < longest) timer = requestAnimationFrame(frame);
      else settle();
    };
    cancelAnimationFrame(timer);
    timer = requestAnimationFrame(frame);
  };
  const choices = tokens.map((text, place) => ({ value: String(place), label: `${place + 1}: ${text}` }));
  const controls = h("div", { class: "controls" },
    select("From", choices, String(state.from), (value) => { state.from = Number(value); settle(); }),
    select("To", choices, String(state.to), (value) => { state.to = Number(value); settle(); }),
    button("Play", play, { class: "primary", id: "play-paths" }));
  settle();
  onWidth(stage, settle);
  const measured = h("figure", {}, chart([{ x: own.by_distance.map((_, place) => place), y: own.by_distance }], { x: "distance in tokens", y: "share of influence", about: "Influence by distance, measured by gradients" }),
    h("figcaption", {}, `Measured on this model: how much the last vector of a token changes with the input of another, by distance (gradients of ${own.queries.length} tokens)`));
  return section("paths", title, "The longer the way between two tokens, the harder it is to learn that they belong together.", controls, stage, facts, measured);
}

function start(tokens: string[]): number {
  const place = tokens.findIndex((text) => text.replace("▁", "") === "animal");
  return place < 0 ? 0 : place;
}

export function lanes(own: Paths, from: number, to: number): Lane[] {
  const way = Math.sign(to - from) || 1;
  const apart = Math.abs(to - from);
  const reach = own.reach ?? 2;
  const walk = (by: number) => {
    const stops = [from];
    while (stops[stops.length - 1] !== to) stops.push(from + way * Math.min(apart, Math.abs(stops[stops.length - 1] - from) + by));
    return stops;
  };
  const count = (number: number, what: string) => `${number} ${what}${number === 1 ? "" : "s"}`;
  return [
    { name: "Recurrent", stops: walk(1), told: count(apart, "step") },
    { name: `Window of ${reach}`, stops: walk(reach), told: count(Math.ceil(apart / reach), "layer") },
    { name: "Attention", stops: apart ? [from, to] : [from], told: count(apart ? 1 : 0, "layer") },
  ];
}

function told(own: Paths, tokens: string[], from: number, to: number): string {
  const graph = own.graph?.[to]?.[from];
  const here = graph === undefined
    ? `This model (${own.kind}) passes what it reads along step by step`
    : graph < 0
      ? `In this model nothing leads from “${tokens[from]}” to “${tokens[to]}”: it may not be seen from there`
      : `In this model (${own.attention} attention, ${own.layers} layers) at least ${graph} ${graph === 1 ? "layer lies" : "layers lie"} between “${tokens[from]}” and “${tokens[to]}”`;
  return `${here}. ${moves(own, tokens, from, to)}`;
}

function moves(own: Paths, tokens: string[], from: number, to: number): string {
  const row = own.queries.indexOf(to);
  if (row < 0) return "";
  const all = floats(own.influence);
  const wide = all.length / own.queries.length;
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
  const x = (place: number) => left + ((wide - left - 30) * place) / Math.max(1, tokens.length - 1);
  const parts = all.flatMap((lane, number) => {
    const y = LANE * (number + 0.7);
    const dots = tokens.map((_, place) => s("circle", { cx: x(place), cy: y, r: (lane.stops.includes(place) ? 4.5 : 3) * small, class: lane.stops.includes(place) ? "stop" : "dot" }));
    const arcs = lane.stops.slice(1).map((stop, hop) => {
      const done = Math.max(0, Math.min(1, beat - hop));
      if (!done) return null;
      const before = lane.stops[hop];
      const rise = Math.min(46, 12 + Math.abs(x(stop) - x(before)) / 6);
      return s("path", { class: done < 1 ? "hop moving" : "hop", pathLength: 1, "stroke-dasharray": done < 1 ? `${done} 1` : null, d: `M${x(before)},${y} Q${(x(before) + x(stop)) / 2},${y - rise * 2} ${x(stop)},${y}` });
    });
    return [...dots, ...arcs, s("text", { x: 0, y: narrow ? y - 52 : y - 2, class: "lane" }, lane.name), s("text", { x: narrow ? wide : 0, y: narrow ? y - 52 : y + 16, "text-anchor": narrow ? "end" : "start", class: "count" }, lane.told)];
  });
  const ends = [all[0].stops[0], all[0].stops[all[0].stops.length - 1]];
  const named = (place: number) => ends.includes(place) || (place % every === 0 && ends.every((end) => Math.abs(end - place) >= every));
  const names = tokens.map((text, place) => named(place) && s("text", { "text-anchor": "end", class: ends.includes(place) ? "token end" : "token", transform: `translate(${x(place) + 4},${LANE * 2.7 + 20}) rotate(-45)` }, text.length > 12 ? `${text.slice(0, 11)}…` : text));
  return s("svg", { viewBox: `0 0 ${wide} ${LANE * 3 + 70}`, width: wide, class: dense ? "paths dense" : "paths", role: "img", "aria-label": all.map((lane) => `${lane.name}: ${lane.told}`).join("; ") }, parts.filter((part) => part !== null), names);
}
