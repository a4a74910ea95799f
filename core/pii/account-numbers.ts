// Numbers of payment cards (ISO/IEC 7812-1), by the ranges and lengths of the networks and the check digit, and international
// bank account numbers (ISO 13616). A number may stand among others, such as an expiry date or a security code.
import { type Detector, matchesOf, type Span } from './kinds.js'

export const paymentCardDetector: Detector = {
  kind: 'payment_card',
  find: (text) => matchesOf(text, digitRun).flatMap((run) => cardsIn(run[0], run.index, text)),
}

/** Digits, in groups with one separator between them. */
const digitRun = /\d(?:[ .\u00a0\u2010-\u2013-]?\d)+/g
const minDigits = 12
const maxDigits = 19
/** Shorter groups belong to a date or a code, unless they all belong to one number. */
const minGroup = 3

/** Prefixes of card networks, so that a time stamp, an IMEI or an order number is seldom taken for a card. */
const networks = new RegExp(
  `^(?:${[
    '2[2-7]\\d{14,17}', // Mastercard, Mir
    '3[0689]\\d{12,17}|3[47]\\d{13}|35\\d{14,17}', // Diners Club, American Express, JCB
    '4(?:\\d{12}|\\d{15,18})', // Visa
    '5[1-5]\\d{14}|5[06-9]\\d{10,17}', // Mastercard, Maestro
    '6\\d{11,18}', // Maestro, Discover, UnionPay, RuPay
    '8[12]\\d{14,17}|9792\\d{12}', // UnionPay, RuPay, Troy
  ].join('|')})$`,
)

/** @param offset position of the run in the text. */
function cardsIn(run: string, offset: number, text: string): Span[] {
  if (run.length < minDigits) return []
  const spanOf = (start: number, end: number): Span => ({ start: offset + start, end: offset + end })
  if (isWholeCard(run)) {
    const whole = spanOf(0, run.length)
    return isOther(text, whole) ? [] : [whole]
  }
  const groups = [...run.matchAll(/\d+/g)].map(({ 0: digits, index }) => ({ digits, index }))
  const spans: Span[] = []
  for (let from = 0; from < groups.length; ) {
    const count = groupsOfCard(groups, from, run)
    const first = groups[from]
    const last = groups[from + count - 1]
    if (count > 0 && first !== undefined && last !== undefined) {
      const span = spanOf(first.index, last.index + last.digits.length)
      if (!isOther(text, span)) spans.push(span)
    }
    from += Math.max(1, count)
  }
  return spans
}

/** Accepts any grouping of the digits. */
function isWholeCard(run: string): boolean {
  if (run.length >= 2 * maxDigits || run.includes('.')) return false
  const digits = digitsOf(run)
  return digits.length > minDigits && isCard(digits)
}

/** The largest number of groups from there that form a card number; 0 if none do. */
function groupsOfCard(
  groups: readonly { readonly digits: string; readonly index: number }[],
  from: number,
  run: string,
): number {
  let digits = ''
  let count = 0
  for (let to = from; to < groups.length; to++) {
    const { digits: group, index } = groups[to] ?? { digits: '', index: 0 }
    digits += group
    if (group.length < minGroup || digits.length > maxDigits) break
    const isFraction = to === from && run[index - 1] === '.'
    if (!isFraction && isCard(digits)) count = to - from + 1
  }
  return count
}

function digitsOf(text: string): string {
  return text.replaceAll(/\D/g, '')
}

function isCard(digits: string): boolean {
  return networks.test(digits) && isLuhn(digits)
}

/** ISO/IEC 7812-1 Annex B. */
function isLuhn(digits: string): boolean {
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i])
    const weighted = i % 2 === 0 ? digit : digit * 2
    sum += weighted > 9 ? weighted - 9 : weighted
  }
  return sum % 10 === 0
}

const maxHexadecimal = 64
/** ITU-T E.164. */
const maxPhoneDigits = 15

/** Whether the digits belong to an international telephone number or to a hexadecimal word, such as a hash. */
function isOther(text: string, { start, end }: Span): boolean {
  if (text[start - 1] === '+' && digitsOf(text.slice(start, end)).length <= maxPhoneDigits) return true
  const before = /[\da-z]*$/i.exec(text.slice(Math.max(0, start - maxHexadecimal), start))?.[0] ?? ''
  const after = /^[\da-z]*/i.exec(text.slice(end, end + maxHexadecimal))?.[0] ?? ''
  return /^(?:0x[\da-f]*|[\da-f]*[a-f][\da-f]*)$/i.test(before + after)
}

/** From SWIFT's IBAN registry; the last line has the countries that use IBANs without being registered. */
const lengths: ReadonlyMap<string, number> = new Map(
  [
    ...(
      'AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27' +
      'GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22' +
      'MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28' +
      'TL23TN24TR26UA29VA22VG24XK20YE30' +
      'AO25BF28BJ28CF27CG27CI28CM27CV25DZ26GA27GQ27GW25IR26KM27MA28MG27ML28MZ25NE28SN28TD27TG28'
    ).matchAll(/([A-Z]{2})(\d{2})/g),
  ].map(([, country = '', length]) => [country, Number(length)]),
)

const start = /(?<![\p{L}\p{N}])[A-Z]{2}\d{2}/giu
const separator = /[ \u00a0-]/
const character = /[A-Z\d]/i

/** International bank account numbers (ISO 13616): the length of each country and the check digits. */
export const ibanDetector: Detector = { kind: 'iban', find: findIbans }

function findIbans(text: string): Span[] {
  const spans: Span[] = []
  let min = 0
  for (const { 0: prefix, index } of matchesOf(text, start)) {
    const length = lengths.get(prefix.slice(0, 2).toUpperCase())
    const end = length === undefined || index < min ? undefined : endOf(text, index, length)
    if (end === undefined || !isIban(text.slice(index, end))) continue
    min = end
    spans.push({ start: index, end })
  }
  return spans
}

/** The end of `count` characters with single separators between them; undefined if there are fewer. */
function endOf(text: string, from: number, count: number): number | undefined {
  let seen = 0
  for (let at = from; at < text.length; at++) {
    if (character.test(text.charAt(at))) {
      if (++seen === count) return at + 1
    } else if (!separator.test(text.charAt(at)) || separator.test(text.charAt(at - 1))) {
      return undefined
    }
  }
  return undefined
}

/** ISO 7064, mod 97-10: the number that the rotated text spells, modulo 97, is 1. */
function isIban(text: string): boolean {
  const compact = text.replaceAll(/[ \u00a0-]/g, '')
  let rest = 0
  for (const one of compact.slice(4) + compact.slice(0, 4)) {
    const value = Number.parseInt(one, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}
