// Text for a terminal. Control characters can drive it, and bidi marks and invisible characters make text look like
// other text.

/** All of these except the line feed, which separates lines. */
const invisible = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** The text with each of these characters as `\uXXXX`, which in JSON is the same value. */
export function visible(text: string): string {
  return text.replaceAll(invisible, escaped)
}

/** Escapes line feeds too, for a value within a line. */
export function visibleInLine(text: string): string {
  return visible(text).replaceAll('\n', escaped)
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}
