// The decimal values of number tokens (RFC 8259 §6): their canonical form, comparison, and the limits of those in requests.

/** The grammar of RFC 8259. */
export const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

/** Characters of a number in a request, and the largest exponent that it may write. */
const MAX_TOKEN = 64
const MAX_EXPONENT = 400

/** `digits`, without zeros at either end, times ten to the `exponent`. Zero has no digits and no sign. */
export interface Decimal {
  readonly sign: -1 | 0 | 1
  readonly digits: string
  readonly exponent: number
}

export function decimalOf(token: string): Decimal {
  const mark = token.search(/[eE]/)
  const mantissa = mark < 0 ? token : token.slice(0, mark)
  const power = mark < 0 ? 0 : Number(token.slice(mark + 1))
  const isNegative = mantissa.startsWith('-')
  const unsigned = isNegative ? mantissa.slice(1) : mantissa
  const point = unsigned.indexOf('.')
  const written = point < 0 ? unsigned : unsigned.slice(0, point) + unsigned.slice(point + 1)
  const scale = point < 0 ? 0 : unsigned.length - point - 1
  let start = 0
  while (written[start] === '0') start++
  let end = written.length
  while (end > start && written[end - 1] === '0') end--
  if (start === end) return { sign: 0, digits: '', exponent: 0 }
  const exponent = power - scale + (written.length - end)
  return { sign: isNegative ? -1 : 1, digits: written.slice(start, end), exponent }
}

/**
 * All significant digits in the layout of ECMA-262 Number::toString, so that equal decimals have equal texts; undefined for
 * text that is not a number of RFC 8259.
 */
export function canonicalNumber(text: string): string | undefined {
  return NUMBER.test(text) ? canonicalToken(text) : undefined
}

export function canonicalToken(token: string): string {
  const { sign, digits, exponent } = decimalOf(token)
  if (sign === 0) return '0'
  const size = digits.length
  const point = size + exponent
  const minus = sign < 0 ? '-' : ''
  if (point >= size && point <= 21) return `${minus}${digits}${'0'.repeat(exponent)}`
  if (point > 0 && point <= 21) return `${minus}${digits.slice(0, point)}.${digits.slice(point)}`
  if (point > -6 && point <= 0) return `${minus}0.${'0'.repeat(-point)}${digits}`
  const fraction = size === 1 ? '' : `.${digits.slice(1)}`
  return `${minus}${digits[0]}${fraction}e${point > 0 ? '+' : '-'}${Math.abs(point - 1)}`
}

/** Whether the value of the token is that of ECMAScript's serialisation of its double. The sign of zero does not count. */
export function isExactNumber(token: string): boolean {
  const written = String(Number(token))
  return written === token || written === canonicalToken(token)
}

/** Whether a request may not have the number: its token is too long, or its exponent too far from zero. */
export function isOutOfBounds(token: string): boolean {
  if (token.length > MAX_TOKEN) return true
  const mark = token.search(/[eE]/)
  return mark >= 0 && Math.abs(Number(token.slice(mark + 1))) > MAX_EXPONENT
}

/** Below zero if `a` is less than `b`, zero if they are equal. Each is what `String` makes of a finite number. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign
  const bySize = a.digits.length + a.exponent - (b.digits.length + b.exponent)
  if (bySize !== 0) return bySize * a.sign
  return a.digits === b.digits ? 0 : a.digits < b.digits ? -a.sign : a.sign
}
