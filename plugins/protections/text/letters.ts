// The letter that a reader sees in a character, so that text which only looks different from English is read as English.

/** Such a character separates words. */
export const SEPARATOR = 0
/** Such a character is not shown, or belongs to the one before it; the word goes on. */
export const SKIPPED = 1

/** Letters of other scripts that look like a Latin one (Unicode TR39, confusables; those used in attacks). */
const LOOKALIKES =
  'аa вb сc ԁd еe ѕs һh іi јj кk мm нh оo рp тt уy хx ѵv ԝw ɡg ɑa ɩi ᴀa ʙb ᴄc ᴅd ᴇe ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ʀr ᴛt ᴜu ᴠv ᴡw ʏy ᴢz αa εe ιi κk νv οo ρp τt υu χx ıi ɒa ցg հh ոn օo սu ւl ℓl ɛe łl øo đd ħh ŧt ꓲi ꓳo ꓮa ꓰe'

const table = new Uint16Array(65_536)
/** The mathematical alphabets, U+1D400 to U+1D7FF, by the low half of the pair. */
const mathematical = new Uint16Array(1024)
fill()

/** The lower-case ASCII letter or digit of a code unit, its own value for another letter, `SEPARATOR` or `SKIPPED`. */
export function letterOf(unit: number): number {
  return table[unit] ?? SEPARATOR
}

/** The same for a pair of surrogates; `SEPARATOR` for one without such a letter. */
export function letterOfPair(high: number, low: number): number {
  if (high === 0xd835) return mathematical[low - 0xdc00] ?? SEPARATOR
  if (high === 0xd83c) return framed(low - 0xdc00)
  // Tags (U+E0000 to U+E007F) repeat ASCII without being shown; variation selectors follow them.
  return high === 0xdb40 ? (low < 0xdc80 ? letterOf(low - 0xdc00) : SKIPPED) : SEPARATOR
}

/** Letters in brackets, squares, circles and flags: alphabets within U+1F000 to U+1F3FF. */
function framed(low: number): number {
  const first = [0x110, 0x130, 0x150, 0x170, 0x1e6].find((begin) => low >= begin && low < begin + 26)
  return first === undefined ? SEPARATOR : 0x61 + low - first
}

function fill(): void {
  for (let unit = 0x30; unit <= 0x39; unit++) table[unit] = unit
  for (let unit = 0x61; unit <= 0x7a; unit++) table[unit] = table[unit - 0x20] = unit
  for (const [first, last] of [
    [0xc0, 0x24f],
    [0x1e00, 0x1eff],
    [0x2100, 0x214f],
    [0x2460, 0x24ff],
    [0xff10, 0xff5a],
  ] as const) {
    for (let unit = first; unit <= last; unit++) table[unit] = asciiOf(String.fromCharCode(unit))
  }
  for (let low = 0; low < 1024; low++) mathematical[low] = asciiOf(String.fromCodePoint(0x1d400 + low))
  // Letters of other scripts are letters: `системы` is a word, and no English one.
  for (const [first, last] of [
    [0x370, 0x5ff],
    [0x600, 0x1dbf],
    [0x3040, 0xd7ff],
  ] as const) {
    for (let unit = first; unit <= last; unit++) table[unit] = unit
  }
  // Letters above and below the line.
  for (const [first, last] of [
    [0x2b0, 0x2e4],
    [0x1d2c, 0x1dbf],
    [0x2071, 0x209c],
  ] as const) {
    for (let unit = first; unit <= last; unit++) {
      const letter = asciiOf(String.fromCharCode(unit))
      if (letter > 0x39) table[unit] = letter
    }
  }
  for (const [lookalike = '', latin = ''] of LOOKALIKES.split(' ').map((pair) => [...pair])) {
    const code = latin.charCodeAt(0)
    table[lookalike.charCodeAt(0)] = code
    table[lookalike.toUpperCase().charCodeAt(0)] = code
  }
  for (const [first, last] of [
    [0x300, 0x36f],
    [0x180b, 0x180f],
    [0x1ab0, 0x1aff],
    [0x1dc0, 0x1dff],
    [0x20d0, 0x20ff],
    [0xfe20, 0xfe2f],
    [0xfe00, 0xfe0f],
    [0x200b, 0x200f],
    [0x202a, 0x202e],
    [0x2060, 0x206f],
  ] as const) {
    table.fill(SKIPPED, first, last + 1)
  }
  for (const unit of [0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xfeff, 0xffa0])
    table[unit] = SKIPPED
}

function asciiOf(character: string): number {
  const [base = ''] = character.normalize('NFKD')
  const code = base.toLowerCase().charCodeAt(0)
  return (code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39) ? code : SEPARATOR
}
