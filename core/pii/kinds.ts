// The kinds of personal data and secrets that the detector knows, and the interface of a detector of one kind.

/** Data about a person. */
export const personalDataKinds = ['email', 'payment_card', 'iban', 'us_ssn', 'phone'] as const

type PersonalDataKind = (typeof personalDataKinds)[number]

/** Secrets that are known by their form. */
export const knownSecretKinds = [
  'private_key',
  'jwt',
  'credential',
  'aws_key',
  'github_token',
  'gitlab_token',
  'slack_token',
  'slack_webhook',
  'stripe_key',
  'google_key',
  'npm_token',
  'api_key',
] as const

/** `secret` is a value that the name beside it identifies as secret. */
export type PiiKind = PersonalDataKind | (typeof knownSecretKinds)[number] | 'secret'

/** A part of a text, in UTF-16 code units; `end` is exclusive. */
export interface Span {
  readonly start: number
  readonly end: number
  /** The quote, with its backslashes, that JSON needs around a replacement: the span is a whole JSON value. */
  readonly jsonQuote?: string
}

export interface Detector {
  readonly kind: PiiKind
  /** In order and without overlap, in time linear in the text. */
  find(text: string): Span[]
}

/** @param isReal checks what the pattern cannot, such as a check digit. */
export function patternDetector(
  kind: PiiKind,
  pattern: RegExp,
  isReal: (match: string) => boolean = () => true,
): Detector {
  return {
    kind,
    find(text) {
      const spans: Span[] = []
      pattern.lastIndex = 0
      for (let match = pattern.exec(text); match !== null; match = pattern.exec(text))
        if (isReal(match[0])) spans.push({ start: match.index, end: match.index + match[0].length })
      return spans
    },
  }
}

/** Like `matchAll`, without its copy of the pattern, because short texts are frequent. */
export function matchesOf(text: string, pattern: RegExp): RegExpExecArray[] {
  const matches: RegExpExecArray[] = []
  pattern.lastIndex = 0
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) matches.push(match)
  return matches
}
