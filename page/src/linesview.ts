// Queries and keys in two columns with lines between them: faint for all queries, strong for the chosen one.

import { colours } from "./colour";
import { h } from "./dom";
import { sized } from "./heatmap";
import { fitted, font, type Cell, type Handlers } from "./matrixview";
import type { Matrix } from "./weights";

const LINE = 24;
const SIDE = 118;
const FAINTEST = 0.04;
/** Most faint lines, a token and in all: with more, nothing could be seen. */
const EACH = 4;
const MOST = 300;

export class LinesView {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly background = document.createElement("canvas");
  private matrix!: Matrix;
  private width = 420;
  private line = LINE;
  private names: { rows: string[]; columns: string[] } = { rows: [], columns: [] };

  constructor(label: string, handlers: Handlers, private readonly room: () => number) {
    this.canvas = h("canvas", { role: "img", "aria-label": label });
    this.element = h("div", { class: "scroll lines" }, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => handlers.point(this.at(event)));
    this.canvas.addEventListener("pointerleave", () => handlers.point(null));
    this.canvas.addEventListener("click", (event) => handlers.press(this.at(event)));
  }

  show(matrix: Matrix): void {
    if (matrix.rows !== this.matrix?.rows || matrix.columns !== this.matrix.columns) this.nameAll(matrix);
    this.matrix = matrix;
    this.width = Math.max(300, Math.min(460, this.room()));
    const count = Math.max(matrix.rows.length, matrix.columns.length);
    this.line = count > 200 ? 14 : LINE;
    sized(this.canvas, this.width, count * this.line + 8);
    this.drawBackground();
    this.mark({ query: -1, key: -1 });
  }

  /** Cuts the texts to their room once, so that neither pointing nor another head measures them. */
  private nameAll(matrix: Matrix): void {
    const context = this.canvas.getContext("2d")!;
    context.font = font();
    const cut = (texts: string[]) => texts.map((text) => fitted(context, text, SIDE - 12));
    this.names = { rows: cut(matrix.rows), columns: cut(matrix.columns) };
  }

  private drawBackground(): void {
    const context = sized(this.background, this.width, Math.max(this.matrix.rows.length, this.matrix.columns.length) * this.line + 8);
    const { rows, columns, values } = this.matrix;
    context.strokeStyle = colours().accentText;
    const least = strongest(values, Math.min(MOST, EACH * rows.length));
    for (let query = 0; query < rows.length; query++) {
      for (let key = 0; key < columns.length; key++) {
        const weight = values[query * columns.length + key];
        if (weight >= least) this.stroke(context, query, key, Math.max(least < FAINTEST ? 0.08 : 0, weight * 0.55), 1 + weight);
      }
    }
  }

  mark(cell: Cell): void {
    const context = this.canvas.getContext("2d")!;
    const { rows, columns, values } = this.matrix;
    const chosen = cell.query >= 0 || cell.key >= 0;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.globalAlpha = chosen ? 0.12 : 1;
    context.drawImage(this.background, 0, 0, this.width, this.background.height / (this.background.width / this.width));
    context.globalAlpha = 1;
    context.strokeStyle = colours().accentText;
    if (cell.query >= 0) {
      const row = values.subarray(cell.query * columns.length, (cell.query + 1) * columns.length);
      this.strong(context, row, (key) => [cell.query, key]);
    } else if (cell.key >= 0) {
      this.strong(context, Float32Array.from(rows, (_, query) => values[query * columns.length + cell.key]), (query) => [query, cell.key]);
    }
    this.texts(context, this.names.rows, true, cell.query, (query) => cell.key >= 0 && cell.query < 0 ? values[query * columns.length + cell.key] : 0);
    this.texts(context, this.names.columns, false, cell.key, (key) => cell.query >= 0 ? values[cell.query * columns.length + key] : 0);
  }

  /** The lines of one token; where all weights are small, the largest of them still show. */
  private strong(context: CanvasRenderingContext2D, weights: Float32Array, ends: (index: number) => [query: number, key: number]): void {
    const least = Math.min(0.004, Math.max(...weights) / 2);
    weights.forEach((weight, index) => {
      if (weight > least) this.stroke(context, ...ends(index), 0.15 + 0.85 * weight, 1 + 5 * weight);
    });
  }

  private stroke(context: CanvasRenderingContext2D, query: number, key: number, alpha: number, width: number): void {
    const from = SIDE;
    const to = this.width - SIDE;
    const y1 = (query + 0.5) * this.line + 4;
    const y2 = (key + 0.5) * this.line + 4;
    context.globalAlpha = Math.min(1, alpha);
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(from, y1);
    context.bezierCurveTo((from + to) / 2, y1, (from + to) / 2, y2, to, y2);
    context.stroke();
    context.globalAlpha = 1;
  }

  private texts(context: CanvasRenderingContext2D, texts: string[], left: boolean, chosen: number, share: (index: number) => number): void {
    const palette = colours();
    context.font = font();
    context.textBaseline = "middle";
    context.textAlign = left ? "right" : "left";
    const x = left ? SIDE - 8 : this.width - SIDE + 8;
    texts.forEach((text, index) => {
      const weight = share(index);
      const y = (index + 0.5) * this.line + 4;
      if (weight > 0.02 || index === chosen) {
        context.fillStyle = palette.accentText;
        context.globalAlpha = index === chosen ? 0.22 : 0.28 * weight;
        context.fillRect(left ? 0 : this.width - SIDE, y - this.line / 2 + 1, SIDE, this.line - 2);
        context.globalAlpha = 1;
      }
      context.fillStyle = palette.ink;
      context.fillText(text, x, y);
    });
  }

  private at(event: MouseEvent): Cell | null {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const index = Math.floor((event.clientY - box.top - 4) / this.line);
    if (x < this.width / 2) return index >= 0 && index < this.matrix.rows.length ? { query: index, key: -1 } : null;
    return index >= 0 && index < this.matrix.columns.length ? { query: -1, key: index } : null;
  }
}

/** The weight from which lines are drawn: those that can be seen, or, where weights are small, the largest of them. */
function strongest(values: Float32Array, most: number): number {
  const counts = new Uint32Array(1001);
  for (const value of values) counts[Math.min(1000, Math.floor(value * 1000))]++;
  let bin = 1000;
  for (let seen = counts[bin]; bin > 1 && seen + counts[bin - 1] <= most; seen += counts[bin]) bin--;
  return Math.max(bin / 1000, 0.001);
}
