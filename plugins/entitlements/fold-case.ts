// One spelling for names that differ in case only. Some servers ignore case, so denylists must not depend on it.

const ESCAPES = /%[0-9a-f]{2}/g

/** Of a reference or a pattern. Upper case first, because some letters share only their capital. */
export function foldCase(text: string): string {
  const folded = text.toUpperCase().toLowerCase().normalize('NFC')
  return folded.includes('%') ? folded.replace(ESCAPES, (code) => code.toUpperCase()) : folded
}
