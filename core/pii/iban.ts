// International bank account numbers (ISO 13616): the length of each country and the check digits.
import { type Detector, matchesOf, type Span } from './kinds.js'

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
