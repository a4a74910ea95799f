// A glob is the list of literal chunks between its stars. Each chunk is matched at its leftmost position, which needs no
// backtracking: if any assignment of the stars matches, the leftmost one does.

/** At least one chunk, with a star between neighbours. A single chunk is a literal. */
export type Glob = readonly [string, ...string[]]

/** Adjacent stars count as one. */
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

/** Placeholder in a template for one or more characters other than `/` and `@`. */
export const NAME = '\u0001'

/**
 * Whether some text matches both the glob and the template, in which NAME stands for any name. Its cost is the product
 * of both lengths, so only the load of a policy may use it.
 */
export function globMeets(glob: Glob, template: string): boolean {
  const globSymbols = symbolsOf(glob)
  // reach[i]: the glob's first i symbols match the part of the template that was read.
  let reach = new Array<boolean>(globSymbols.length + 1).fill(false)
  reach[0] = true
  skipStars(reach, globSymbols)
  for (const symbol of template.split('')) reach = step(reach, globSymbols, symbol)
  return reach[globSymbols.length] === true
}

const STAR = Symbol('star')
type GlobSymbol = string | typeof STAR

function symbolsOf(glob: Glob): GlobSymbol[] {
  return glob.flatMap((chunk, i) => (i === 0 ? chunk.split('') : [STAR, ...chunk.split('')]))
}

function step(reach: readonly boolean[], globSymbols: readonly GlobSymbol[], symbol: string): boolean[] {
  const next = new Array<boolean>(globSymbols.length + 1).fill(false)
  for (const [i, sign] of globSymbols.entries()) {
    if (!reach[i]) continue
    if (sign === STAR) next[i] = true
    else if (fits(sign, symbol)) next[i + 1] = true
  }
  if (symbol === NAME) {
    // A name has one or more characters, so the same symbol may match again.
    for (const [i, sign] of globSymbols.entries()) if (next[i] && fits(sign, NAME)) next[i + 1] = true
  }
  skipStars(next, globSymbols)
  return next
}

function fits(sign: GlobSymbol, symbol: string): boolean {
  if (sign === STAR) return true
  return symbol === NAME ? sign !== '/' && sign !== '@' : sign === symbol
}

/** A star also matches the empty text. */
function skipStars(reach: boolean[], globSymbols: readonly GlobSymbol[]): void {
  for (const [i, sign] of globSymbols.entries()) if (reach[i] && sign === STAR) reach[i + 1] = true
}

/** Whether some text matches both. Its cost is the product of both lengths, so only the load of a policy may use it. */
export function globsMeet(a: Glob, b: Glob): boolean {
  const [rows, columns] = [symbolsOf(a), symbolsOf(b)]
  // reach[i]: some text matches the first i symbols of `b` and those of `a` that were read.
  let reach = Array.from({ length: columns.length + 1 }, (_, i) =>
    columns.slice(0, i).every((sign) => sign === STAR),
  )
  for (const sign of rows) {
    const next: boolean[] = [sign === STAR && reach[0] === true]
    for (const [i, other] of columns.entries()) {
      const isStar = sign === STAR || other === STAR
      next.push(isStar ? reach[i + 1] === true || next[i] === true : reach[i] === true && sign === other)
    }
    reach = next
  }
  return reach[columns.length] === true
}
