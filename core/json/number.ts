// Checks whether a decimal number is represented exactly by a double.

/** `digits` without leading and trailing zeros, times ten to the `exponent`; zero has no digits. */
interface Decimal {
  readonly digits: string
  readonly exponent: number
}

/**
 * Whether the decimal value of a JSON number token equals that of ECMAScript's shortest serialisation of the
 * double it is read as (ECMA-262 Number::toString). The sign of zero is not part of a decimal value.
 */
export function isExactNumber(token: string): boolean {
  const double = Number(token)
  if (!Number.isFinite(double)) return false
  const written = String(double)
  if (written === token) return true
  const sent = decimalOf(token)
  const kept = decimalOf(written)
  return sent.digits === kept.digits && (sent.digits === '' || sent.exponent === kept.exponent)
}

function decimalOf(token: string): Decimal {
  const mark = token.search(/[eE]/)
  const mantissa = mark < 0 ? token : token.slice(0, mark)
  // If the exponent is too long for a double, the number is read as zero or infinity, and the digits differ.
  const power = mark < 0 ? 0 : Number(token.slice(mark + 1))
  const unsigned = mantissa.startsWith('-') ? mantissa.slice(1) : mantissa
  const point = unsigned.indexOf('.')
  const digits = point < 0 ? unsigned : unsigned.slice(0, point) + unsigned.slice(point + 1)
  const scale = point < 0 ? 0 : unsigned.length - point - 1
  let start = 0
  while (digits[start] === '0') start++
  let end = digits.length
  while (end > start && digits[end - 1] === '0') end--
  return { digits: digits.slice(start, end), exponent: power - scale + (digits.length - end) }
}
