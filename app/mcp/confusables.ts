// Skeletons of method names: methods that a lenient decoder could confuse have the same skeleton.

import { foldName } from '@svc/core/match'

const noise = /[^\p{L}\p{N}]+/gu

/** The fold of a name without spaces, punctuation and control characters: that of `Tools.Call ` is `toolscall`. */
export function methodSkeleton(method: string): string {
  return foldName(method).replace(noise, '')
}
