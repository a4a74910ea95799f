// A glob as the literal chunks between its stars. Matching is leftmost-first per chunk, which needs no backtracking:
// where any assignment of the stars matches, the leftmost one does.

/** At least one chunk; between two neighbours stands a star. One chunk alone is a literal. */
export type Glob = readonly [string, ...string[]]

/** Stars next to each other are one star. */
export function globOf(text: string): Glob {
  const [first = '', ...rest] = text.split(/\*+/)
  return [first, ...rest]
}

export function isLiteral(glob: Glob): boolean {
  return glob.length === 1
}

export function globMatches(glob: Glob, text: string): boolean {
  const first = glob[0]
  const last = glob[glob.length - 1] ?? ''
  if (glob.length === 1) return text === first
  let from = first.length
  const end = text.length - last.length
  if (from > end || !text.startsWith(first) || !text.endsWith(last)) return false
  for (let i = 1; i < glob.length - 1; i++) {
    const chunk = glob[i] ?? ''
    const at = text.indexOf(chunk, from)
    if (at < 0 || at + chunk.length > end) return false
    from = at + chunk.length
  }
  return true
}

/** Stands in a template for one or more characters that are neither `/` nor `@`. */
export const NAME = '\u0001'

/**
 * Whether some text fits both the glob and the template, where NAME stands for any name. Of the order of the two
 * lengths multiplied: for load time, not for calls.
 */
export function globMeets(glob: Glob, template: string): boolean {
  const signs = signsOf(glob)
  // reach[i]: the glob's first i signs fit the part of the template that was read.
  let reach = new Array<boolean>(signs.length + 1).fill(false)
  reach[0] = true
  skipStars(reach, signs)
  for (const symbol of template.split('')) reach = step(reach, signs, symbol)
  return reach[signs.length] === true
}

const STAR = Symbol('star')
type Sign = string | typeof STAR

function signsOf(glob: Glob): Sign[] {
  return glob.flatMap((chunk, i) => (i === 0 ? chunk.split('') : [STAR, ...chunk.split('')]))
}

function step(reach: readonly boolean[], signs: readonly Sign[], symbol: string): boolean[] {
  const next = new Array<boolean>(signs.length + 1).fill(false)
  for (const [i, sign] of signs.entries()) {
    if (!reach[i]) continue
    if (sign === STAR) next[i] = true
    else if (fits(sign, symbol)) next[i + 1] = true
  }
  if (symbol === NAME) {
    // A name goes on: what fits one character of it may go on fitting.
    for (const [i, sign] of signs.entries()) if (next[i] && fits(sign, NAME)) next[i + 1] = true
  }
  skipStars(next, signs)
  return next
}

function fits(sign: Sign, symbol: string): boolean {
  if (sign === STAR) return true
  return symbol === NAME ? sign !== '/' && sign !== '@' : sign === symbol
}

/** A star may also stand for nothing. */
function skipStars(reach: boolean[], signs: readonly Sign[]): void {
  for (const [i, sign] of signs.entries()) if (reach[i] && sign === STAR) reach[i + 1] = true
}
