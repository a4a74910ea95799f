// The message of a thrown value.

/**
 * The message without the code, the call and the path of an error of the system, for a message that has the path
 * already: `ENOENT: no such file or directory, open 'a.txt'` becomes `no such file or directory`.
 */
export function reasonOf(thrown: unknown): string {
  const message = messageOf(thrown)
  const isOfSystem = thrown instanceof Error && 'syscall' in thrown
  return isOfSystem ? message.replace(/^E[A-Z0-9]+: (.*?), \w+(?: '.*)?$/s, '$1') : message
}

/** The message of an `Error`, else the value as text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
