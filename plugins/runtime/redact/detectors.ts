// Finds what is worth hiding in text. Every pattern is bounded, so that a long text costs its length and no more.
import type { DetectorName, OutputRuleParams } from './rule-schema.js'

/** The text with `replacement` in place of what was found. */
export type Detector = (text: string, replacement: string) => string

const found =
  (pattern: RegExp, isMeant: (match: string) => boolean = () => true): Detector =>
  (text, replacement) =>
    text.replace(pattern, (match) => (isMeant(match) ? replacement : match))

const detectors: Readonly<Record<DetectorName, Detector>> = {
  email: found(/[\p{L}\p{N}._%+'-]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/gu),
  payment_card: found(/(?<!\d)\d(?:[ -]?\d){11,18}(?!\d)/g, isLuhn),
  iban: hideIbans,
  us_ssn: found(/(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)/g),
  phone: found(/(?<![\p{L}\p{N}])\+\d(?:[ ().-]{0,2}\d){6,14}(?!\d)/gu),
}

export function detectorOf(pattern: NonNullable<OutputRuleParams['patterns']>[number]): Detector {
  if (typeof pattern === 'string') return detectors[pattern]
  const { literal } = pattern
  return (text, replacement) => text.replaceAll(literal, () => replacement)
}

/** ISO/IEC 7812-1 Annex B. */
function isLuhn(text: string): boolean {
  const digits = text.replaceAll(/\D/g, '')
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i])
    const weighed = i % 2 === 0 ? digit : digit * 2
    sum += weighed > 9 ? weighed - 9 : weighed
  }
  return sum % 10 === 0
}

const ibanStart = /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,30}/g
const longestIban = 34
const shortestIban = 15

/** What follows an IBAN in a text may look like more of it, so the longest beginning that checks is taken. */
function hideIbans(text: string, replacement: string): string {
  return text.replace(ibanStart, (match) => {
    const ends = [...match.matchAll(/[A-Za-z0-9]/g)].map(({ index }) => index + 1)
    for (let length = Math.min(ends.length, longestIban); length >= shortestIban; length--) {
      const end = ends[length - 1] ?? 0
      if (isIban(match.slice(0, end))) return replacement + match.slice(end)
    }
    return match
  })
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
