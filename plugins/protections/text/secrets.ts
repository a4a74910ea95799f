// Secrets and personal data in what leaves, by the detector of core.

import { detectPii, knownSecretKinds, type Span } from '@svc/core/pii'

/** Keys and tokens that are known by their form. A value beside a name such as `password` may be a placeholder. */
export function secrets(text: string): Span[] {
  // A user and a password are the only secret that short.
  if (text.length < 13 && !text.includes(':')) return []
  return detectPii(text, knownSecretKinds)
}

/** Data about persons; addresses of mail are not among them, as most calls that need one are harmless. */
export function personalData(text: string): Span[] {
  // None is shorter than `123-45-6789`.
  if (text.length < 11 || !/\d/.test(text)) return []
  return detectPii(text, ['payment_card', 'iban', 'us_ssn'])
}
