import { expect, it } from "vitest";
import { lanes } from "../src/sections/paths";
import { aligned, resumes } from "../src/sections/training";
import type { MetricLine } from "../src/types";
import { merged, weighed } from "../src/weights";

it("joins pieces into words: keys are added, queries averaged", () => {
  const rows = { tokens: ["▁a", "▁b", "c"], words: [0, 1, 1], texts: ["a", "bc"] };
  const values = Float32Array.from([1, 0, 0, 0.5, 0.25, 0.25, 0, 0.5, 0.5]);
  const found = merged({ rows: rows.tokens, columns: rows.tokens, values, exact: true }, rows, rows);
  expect(found.rows).toEqual(["a", "bc"]);
  expect(Array.from(found.values)).toEqual([1, 0, 0.25, 0.75]);
});

it("weighs by the values' lengths, as shares of a row", () => {
  expect(Array.from(weighed(Float32Array.from([0.5, 0.5]), [1, 3], 2))).toEqual([0.25, 0.75]);
});

it("counts the steps between two tokens", () => {
  const own = { side: "source" as const, kind: "", attention: "full", reach: 4, layers: 1, queries: [], influence: "", by_distance: [] };
  expect(lanes(own, 1, 10).map((lane) => lane.stops.length - 1)).toEqual([9, 3, 1]);
  expect(lanes(own, 10, 1).map((lane) => lane.stops[lane.stops.length - 1])).toEqual([1, 1, 1]);
  expect(lanes(own, 3, 3).map((lane) => lane.length)).toEqual(["0 steps", "0 layers", "0 layers"]);
});

it("lines up metrics by step, with gaps where a number is none", () => {
  const lines: MetricLine[] = [{ step: 1, split: "train", loss: 3 }, { step: 2, split: "train", loss: null }, { step: 2, split: "valid", loss: 2 }, { event: "resume", step: 1 }];
  expect(aligned(lines, "loss", ["train", "valid"])).toEqual([[1, 2], [3, null], [null, 2]]);
  expect(resumes(lines)).toEqual([1]);
});
