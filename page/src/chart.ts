// A small line chart in SVG, for curves by distance.

import { extent } from "d3-array";
import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import { s } from "./dom";

export interface Curve {
  x: number[];
  y: number[];
  name?: string;
}

const WIDEST = 500;
const HEIGHT = 200;
const MARGIN = { left: 60, right: 12, top: 10, bottom: 34 };

export function chart(curves: Curve[], labels: { x: string; y: string; about: string }): SVGSVGElement {
  const width = Math.min(WIDEST, Math.max(280, document.documentElement.clientWidth - 32)); // so that text stays readable on a phone
  const x = scaleLinear().domain(extent(curves.flatMap((curve) => curve.x)) as [number, number]).range([MARGIN.left, width - MARGIN.right]);
  const y = scaleLinear().domain(extent([0, ...curves.flatMap((curve) => curve.y)]) as [number, number]).nice().range([HEIGHT - MARGIN.bottom, MARGIN.top]);
  const ticksX = x.ticks(6).filter(Number.isInteger).map((tick) => s("text", { x: x(tick), y: HEIGHT - 18, "text-anchor": "middle" }, String(tick).replace("-", "−")));
  const ticksY = y.ticks(4).flatMap((tick) => [
    s("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick), class: "rule" }),
    s("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick).replace("-", "−")),
  ]);
  const path = line<number>((_, index) => 0 * index);
  const drawn = curves.map((curve, index) => {
    const curvePath = path.x((_, at) => x(curve.x[at])).y((_, at) => y(curve.y[at]));
    return s("path", { d: curvePath(curve.y) ?? "", class: "curve", "stroke-opacity": curves.length === 1 ? 1 : 1 - (0.75 * index) / curves.length }, s("title", {}, curve.name ?? ""));
  });
  return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": labels.about },
    ticksY, ticksX, drawn,
    s("text", { x: (width + MARGIN.left) / 2, y: HEIGHT - 2, "text-anchor": "middle", class: "axis" }, labels.x),
    s("text", { transform: `translate(12 ${HEIGHT / 2 - 10}) rotate(-90)`, "text-anchor": "middle", class: "axis" }, labels.y));
}
