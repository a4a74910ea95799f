// Finds what is worth hiding in text. Every pattern is bounded, so that a long text costs its length and no more.
import type { DetectorName, OutputRuleParams } from './rule-schema.js'

/** The text with `replacement` in place of what was found. */
export type Detector = (text: string, replacement: string) => string

const found =
  (pattern: RegExp): Detector =>
  (text, replacement) =>
    text.replace(pattern, () => replacement)

const detectors: Readonly<Record<DetectorName, Detector>> = {
  email: hideAddresses,
  payment_card: hideCards,
  iban: hideIbans,
  us_ssn: found(/(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)/g),
  phone: found(/(?<![\p{L}\p{N}])\+\d(?:[ ().-]{0,2}\d){6,14}(?!\d)/gu),
}

export function detectorOf(pattern: NonNullable<OutputRuleParams['patterns']>[number]): Detector {
  if (typeof pattern === 'string') return detectors[pattern]
  const { literal } = pattern
  return (text, replacement) => text.replaceAll(literal, () => replacement)
}

/** RFC 5321 §4.5.3.1.1. */
const longestLocalPart = 64
/** A half of a letter beyond the basic plane counts as one. */
const localCharacter = /[\p{L}\p{N}\p{Cs}._%+'-]/u
const domain = /[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/uy

/** From each `@` outward, so that text without one costs nothing. */
function hideAddresses(text: string, replacement: string): string {
  let shown = ''
  let copied = 0
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', at + 1)) {
    const least = Math.max(copied, at - longestLocalPart)
    let from = at
    while (from > least && localCharacter.test(text.charAt(from - 1))) from--
    domain.lastIndex = at + 1
    const [host] = (from < at && domain.exec(text)) || []
    if (host === undefined) continue
    shown += text.slice(copied, from) + replacement
    copied = at + 1 + host.length
  }
  return shown + text.slice(copied)
}

/** Nobody writes a card's number digit by digit. */
const digitGroups = /\d{3,}(?:[ .\u00a0-]\d{3,})*/g
const shortestCard = 12
const longestCard = 19

/** A number may stand among others (an expiry, a code), so every run of whole groups is tried, the longest first. */
function hideCards(text: string, replacement: string): string {
  return text.replace(digitGroups, (match) => {
    const groups = [...match.matchAll(/\d+/g)].map(({ 0: digits, index }) => ({ digits, index }))
    let shown = ''
    let copied = 0
    for (let from = 0; from < groups.length; ) {
      const count = cardAt(groups, from)
      const first = groups[from]
      const last = groups[from + count - 1]
      if (count > 0 && first !== undefined && last !== undefined) {
        shown += match.slice(copied, first.index) + replacement
        copied = last.index + last.digits.length
      }
      from += Math.max(1, count)
    }
    return shown + match.slice(copied)
  })
}

/** How many groups from there are a card's number; 0 for none. */
function cardAt(groups: readonly { readonly digits: string }[], from: number): number {
  let digits = ''
  let count = 0
  for (let to = from; to < groups.length; to++) {
    digits += groups[to]?.digits ?? ''
    if (digits.length > longestCard) break
    if (digits.length >= shortestCard && isLuhn(digits)) count = to - from + 1
  }
  return count
}

/** ISO/IEC 7812-1 Annex B. */
function isLuhn(digits: string): boolean {
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i])
    const weighed = i % 2 === 0 ? digit : digit * 2
    sum += weighed > 9 ? weighed - 9 : weighed
  }
  return sum % 10 === 0
}

/** Characters of an IBAN by its country (SWIFT's IBAN registry). */
const ibanLengths: ReadonlyMap<string, number> = new Map(
  [
    ...(
      'AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27' +
      'GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22' +
      'MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28' +
      'TL23TN24TR26UA29VA22VG24XK20YE30'
    ).matchAll(/([A-Z]{2})(\d{2})/g),
  ].map(([, country = '', length]) => [country, Number(length)]),
)

const ibanStart = /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,30}/g

/** What follows an IBAN in a text may look like more of it: its country says where it ends. */
function hideIbans(text: string, replacement: string): string {
  return text.replace(ibanStart, (match) => {
    const length = ibanLengths.get(match.slice(0, 2).toUpperCase())
    const end = length === undefined ? undefined : endOf(match, length)
    return end === undefined || !isIban(match.slice(0, end)) ? match : replacement + match.slice(end)
  })
}

/** Where the first `count` characters that are no spaces end; undefined where there are fewer. */
function endOf(text: string, count: number): number | undefined {
  let seen = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] !== ' ' && ++seen === count) return at + 1
  }
  return undefined
}

/** ISO 13616: the number that the rotated text spells, modulo 97, is 1. */
function isIban(text: string): boolean {
  const compact = text.replaceAll(' ', '').toUpperCase()
  const rotated = compact.slice(4) + compact.slice(0, 4)
  let rest = 0
  for (const character of rotated) {
    for (const digit of String(Number.parseInt(character, 36))) rest = (rest * 10 + Number(digit)) % 97
  }
  return rest === 1
}
