// Part 9: training curves. Live, they follow the run.

import uPlot from "uplot";
import { colours, onThemeChange } from "../colour";
import { h, onWidth, replace, section } from "../dom";
import { NO_RESPONSE } from "../server";
import type { Store } from "../store";
import type { MetricLine, Payload } from "../types";
import { checkpoints } from "./checkpoints";

const PANELS: [field: string, title: string, splits: string[]][] = [
  ["loss", "Loss (nats)", ["train", "valid"]],
  ["lr", "Learning rate", ["train"]],
  ["gradient_norm", "Gradient norm", ["train"]],
];
const EVERY = 4000;

export function training(payload: Payload, store: Store): HTMLElement {
  const plots = h("div", { class: "plots" });
  const status = h("p", { class: "hint", role: "status" });
  let lines = payload.training ?? [];
  const draw = () => {
    replace(plots, ...PANELS.map(([field, title, splits]) => panel(lines, field, title, splits, plots.clientWidth || 900)));
    status.textContent = summary(lines);
  };
  onThemeChange(draw);
  onWidth(plots, draw);
  if (payload.live && payload.about.run) follow(payload.about.run, plots, (result) => {
    if (result) lines = result;
    if (result) draw();
    else status.textContent = `${NO_RESPONSE} The curves are as of its last response.`;
  });
  return section("training", "Training", payload.live ? "Loss, learning rate and gradient norm by step; while the run trains, the curves follow it." : "Loss, learning rate and gradient norm by step.", plots, status, checkpoints(payload, store));
}

function summary(lines: MetricLine[]): string {
  if (!lines.length) return "No metrics were recorded for this model.";
  const resumed = resumes(lines);
  const last = Math.max(...lines.map((line) => Number(line.step) || 0));
  return `Up to step ${last.toLocaleString("en")}.${resumed.length ? ` Resumed after step ${resumed.join(", ")} (dotted).` : ""}`;
}

/** Polls the server for new lines as long as the page is shown; null when it does not respond. */
function follow(run: string, watched: HTMLElement, update: (lines: MetricLine[] | null) => void): void {
  let known = -1;
  const poll = async () => {
    if (!watched.isConnected && known >= 0) return;
    try {
      const answer = await fetch(`/runs/${encodeURIComponent(run)}/metrics`);
      const lines = answer.ok ? ((await answer.json()) as MetricLine[]) : [];
      if (lines.length && lines.length !== known) update(lines);
      known = Math.max(0, lines.length);
    } catch {
      known = 0; // so that all is drawn again once it responds
      update(null);
    }
    setTimeout(poll, EVERY);
  };
  void poll();
}

export function resumes(lines: MetricLine[]): number[] {
  return [...new Set(lines.filter((line) => line.event === "resume").map((line) => Number(line.step)))].sort((a, b) => a - b);
}

/** The numbers of a field by step, one row a split, as uPlot takes them; a missing number is a gap. */
export function aligned(lines: MetricLine[], field: string, splits: string[]): (number | null)[][] {
  const known = lines.filter((line) => splits.includes(String(line.split)) && field in line);
  const steps = [...new Set(known.map((line) => Number(line.step)))].sort((a, b) => a - b);
  const rows = splits.map((split) => {
    const values = new Map(known.filter((line) => line.split === split).map((line) => [Number(line.step), line[field]]));
    return steps.map((step) => (typeof values.get(step) === "number" && Number.isFinite(values.get(step)) ? (values.get(step) as number) : null));
  });
  return [steps, ...rows];
}

function panel(lines: MetricLine[], field: string, title: string, splits: string[], room: number): HTMLElement {
  const data = aligned(lines, field, splits);
  const holder = h("figure", { class: "plot" }, h("figcaption", {}, title));
  if (!data[0].length) return holder;
  const palette = colours();
  const axis = { stroke: palette.ink, grid: { stroke: palette.faint, width: 1 }, ticks: { stroke: palette.faint }, font: "12px system-ui" };
  const line = (label: string, stroke: string, dotted: boolean): uPlot.Series => ({ label, stroke, width: 2, spanGaps: true, points: { show: dotted, size: 7, fill: stroke } });
  const series: uPlot.Series[] = splits.map((split) => line(split, split === "train" ? palette.accentText : `rgb(${palette.other.join(" ")})`, split === "valid" || data[0].length === 1));
  const width = room > 760 ? Math.floor((room - 32) / 3) : room;
  const marks = (plot: uPlot) => drawMarks(plot, resumes(lines), palette.ink);
  new uPlot({ width, height: 240, scales: { x: { time: false } }, axes: [{ ...axis, label: "step", labelSize: 16, labelGap: 0, labelFont: "12px system-ui" }, { ...axis, size: 58, values: (_, values) => ticks(values) }], series: [{ label: "step" }, ...series], legend: { show: splits.length > 1, live: false }, cursor: { drag: { x: true, y: false } }, hooks: { draw: [marks] } }, data as uPlot.AlignedData, holder);
  holder.dataset.points = String(data[0].length);
  return holder;
}

/** Numbers along an axis, with as many digits as tell them apart. */
export function ticks(values: number[]): string[] {
  const apart = values.length > 1 ? Math.abs(values[1] - values[0]) : 1;
  const digits = Math.max(0, Math.min(8, Math.ceil(-Math.log10(apart || 1) - 1e-9)));
  const sharp = values.some((value) => Math.abs(value * 10 ** digits - Math.round(value * 10 ** digits)) > 1e-3) ? digits + 1 : digits;
  return values.map((value) => (value === 0 ? "0" : sharp > 4 ? value.toExponential(1) : value.toFixed(sharp)).replace(/^-/, "−"));
}

function drawMarks(plot: uPlot, steps: number[], ink: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ink;
  ctx.setLineDash([2, 5]);
  for (const step of steps) {
    const x = plot.valToPos(step, "x", true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
