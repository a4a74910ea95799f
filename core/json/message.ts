// The message of a thrown value.

/** The message of an `Error`, else the value as text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
