// Requests of the live page to its server: another input, another run, earlier checkpoints.

import { readsImages } from "./input";
import type { ImageFile, Payload, TraceConfig } from "./types";

export interface Request {
  model: string;
  /** The input: a text, or an image in its index. */
  text?: string;
  file?: ImageFile;
  target: string | null;
  options?: Partial<TraceConfig>;
  /** Whether to add the attention of earlier checkpoints. */
  snapshots?: boolean;
}

/** Requests another payload for the whole page; an error message where the server refuses. */
export type Submit = (request: Request) => Promise<string | null>;

export const NO_RESPONSE = "The server does not respond.";

/** The input of a page, to request it once more. */
export function sameInput(payload: Payload): Pick<Request, "text" | "file"> {
  return readsImages(payload) ? { file: payload.file } : { text: payload.text };
}

/** The payload; an error message where the server refuses or does not respond. */
export async function attention({ text, file, ...request }: Request): Promise<Payload | string> {
  const json = JSON.stringify({ options: {}, ...(file ? { image: file.data } : { text }), ...request });
  const response = await fetch("/attention", { method: "POST", headers: { "Content-Type": "application/json" }, body: json }).catch(() => null);
  if (!response) return NO_RESPONSE;
  const body = await response.json().catch(() => null);
  return response.ok && body ? (body as Payload) : refusal(body ?? {}, response.status);
}

/** The message of an error response, wherever it stands. */
function refusal(body: unknown, status: number): string {
  const { detail, error } = body as { detail?: unknown; error?: { message?: unknown } | string };
  const message = [detail, typeof error === "object" ? error?.message : error].find((text) => typeof text === "string");
  return (message as string | undefined) ?? `The server refuses (${status}).`;
}
