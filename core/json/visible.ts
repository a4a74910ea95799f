// Text for a reader. Control characters can drive a terminal, and bidi marks, invisible characters and other spaces make
// text look like other text. The console and the evidence page mark the same characters.

/**
 * Controls, formats (bidi, zero width, tags), spaces other than U+0020, separators, characters that a font may leave out,
 * unassigned, private and half ones, and the blank Braille pattern.
 */
const hidden =
  /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}|\p{Default_Ignorable_Code_Point}/u
const all = new RegExp(hidden.source, 'gu')

/** Whether a character cannot be seen, or is not what it looks like. */
export function isHidden(character: string): boolean {
  return hidden.test(character)
}

/** The text in pieces: those with an odd index are hidden characters. */
export function splitAtHidden(text: string): string[] {
  return text.split(new RegExp(`(${hidden.source})`, 'u'))
}

/** The text with each hidden character as `\uXXXX`, which in JSON is the same value. Line feeds stay. */
export function visible(text: string): string {
  return text.replaceAll(all, (character) => (character === '\n' ? character : escaped(character)))
}

/** Escapes line feeds too, for a value within a line. */
export function visibleInLine(text: string): string {
  return text.replaceAll(all, escaped)
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}
