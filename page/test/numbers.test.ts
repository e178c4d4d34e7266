import { describe, expect, it } from "vitest";
import { count, logarithm, percent, reweigh, short, softmax, sum } from "../src/numbers";
import { ticks } from "../src/sections/training";

const LOGPROBS = [0.5, 0.2, 0.1].map(Math.log);
const TOP: [string, number][] = LOGPROBS.map((p, place) => [`t${place}`, p]);
const TAIL: [number, number][] = [[2, Math.log(0.05)], [10, Math.log(0.01)]];

describe("softmax", () => {
  it("sums to one over what may be seen", () => {
    const weights = softmax([1, 2, 3], [1, 0, 1]);
    expect(weights[1]).toBe(0);
    expect(sum(weights)).toBeCloseTo(1);
    expect(weights[2] / weights[0]).toBeCloseTo(Math.exp(2));
  });
  it("is zero where nothing may be seen", () => expect(Array.from(softmax([1, 2], [0, 0]))).toEqual([0, 0]));
});

describe("reweigh", () => {
  it("changes nothing at temperature one without a nucleus", () => {
    const { probabilities, rest } = reweigh(TOP, TAIL, 1, 1);
    probabilities.forEach((p, place) => expect(p).toBeCloseTo([0.5, 0.2, 0.1][place]));
    expect(rest).toBeCloseTo(0.2);
  });
  it("squares at temperature one half, the unseen rest included", () => {
    const total = 0.25 + 0.04 + 0.01 + 2 * 0.0025 + 10 * 0.0001;
    expect(reweigh(TOP, TAIL, 0.5, 1).probabilities[0]).toBeCloseTo(0.25 / total);
  });
  it("keeps the smallest set that reaches p, the likeliest always", () => {
    expect(reweigh(TOP, TAIL, 1, 0.01).kept).toEqual([true, false, false]);
    expect(reweigh(TOP, TAIL, 1, 0.6).kept).toEqual([true, true, false]);
    expect(reweigh(TOP, TAIL, 1, 0.6).probabilities[0]).toBeCloseTo(0.5 / 0.7);
  });
  it("reaches into the rest where the shown tokens are not enough", () => {
    expect(reweigh(TOP, TAIL, 1, 0.85).probabilities[0]).toBeCloseTo(0.5 / 0.85);
  });
});

describe("texts", () => {
  it("never says 0 or 100 of what is neither", () => {
    expect([percent(1), percent(0.99999), percent(0), percent(1e-9), percent(2e-5), percent(0.123)]).toEqual(["100 %", "> 99.9 %", "0 %", "< 0.0001 %", "0.002 %", "12.3 %"]);
    expect([logarithm(0), logarithm(-1e-5), logarithm(-0.25)]).toEqual(["0.000", "> −0.001", "−0.250"]);
  });
  it("counts in thousands and millions", () => expect([count(512), count(26_530), count(999_900), count(1_652_000)]).toEqual(["512", "26.5 k", "1.00 M", "1.65 M"]));
  it("tells ticks apart", () => {
    expect(ticks([0, 0.5, 1])).toEqual(["0", "0.5", "1.0"]);
    expect(ticks([5.99, 5.995, 6])).toEqual(["5.990", "5.995", "6.000"]);
    expect(ticks([0, 2e-6])).toEqual(["0", "2.0e-6"]);
    expect(ticks([-2, 0, 2])).toEqual(["−2", "0", "2"]);
  });
  it("writes infinity as such", () => expect([short(-Infinity), short(-1.5)]).toEqual(["−∞", "−1.500"]));
});
