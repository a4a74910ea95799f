// Secrets and personal data in what leaves, by the detector of core.

import type { Span } from '@svc/core/pii'
import { detectPii, personalDataKinds } from '@svc/core/pii'

const personal = new Set<string>(personalDataKinds)

/** Keys and tokens that are known by their form. A value beside a name such as `password` may be a placeholder. */
export function secrets(text: string): Span[] {
  return detectPii(text).filter(({ kind }) => !personal.has(kind) && kind !== 'secret')
}

/** Data about persons; addresses of mail are not among them, as most calls that need one are harmless. */
export function personalData(text: string): Span[] {
  return detectPii(text, ['payment_card', 'iban', 'us_ssn'])
}
