// What the live page asks its server for: a look at another input, at another run, or at earlier checkpoints.

import { readsImages, type ImageFile, type Payload } from "./types";

export interface Request {
  model: string;
  /** What the model reads: a text, or an image in its place. */
  text?: string;
  file?: ImageFile;
  target: string | null;
  options?: Record<string, unknown>;
  /** Whether to tell what earlier checkpoints saw. */
  snapshots?: boolean;
}

/** Asks for another look at the whole page; a sentence where the server refuses. */
export type Ask = (request: Request) => Promise<string | null>;

export const SILENT = "The server does not answer.";

/** The input of a page, to be looked at once more. */
export function again(payload: Payload): Pick<Request, "text" | "file"> {
  return readsImages(payload) ? { file: payload.file } : { text: payload.text };
}

/** What the server finds; a sentence where it refuses, or is gone. */
export async function attention({ text, file, ...request }: Request): Promise<Payload | string> {
  const body = JSON.stringify({ options: {}, ...(file ? { image: file.data } : { text }), ...request });
  const answer = await fetch("/attention", { method: "POST", headers: { "Content-Type": "application/json" }, body }).catch(() => null);
  if (!answer) return SILENT;
  const found = await answer.json().catch(() => null);
  return answer.ok && found ? (found as Payload) : refusal(found ?? {}, answer.status);
}

/** What a server says when it refuses, wherever it puts the sentence. */
function refusal(found: unknown, status: number): string {
  const { detail, error } = found as { detail?: unknown; error?: { message?: unknown } | string };
  const told = [detail, typeof error === "object" ? error?.message : error].find((text) => typeof text === "string");
  return (told as string | undefined) ?? `The server refuses (${status}).`;
}
