// Skeletons of names: names that a lenient decoder could confuse have the same skeleton.

import { normalized } from '@svc/core/match'

const noise = /[^\p{L}\p{N}]+/gu

/** Folds case and compatibility variants (Unicode NFKC): `ſ` is s, the Kelvin sign is k, full width is plain. */
export function confusableSkeleton(name: string): string {
  return normalized(name, 'NFKC').toLowerCase()
}

/** Also drops spaces, punctuation and control characters: `Tools.Call ` is `toolscall`. */
export function methodSkeleton(method: string): string {
  return confusableSkeleton(method).replace(noise, '')
}
