// Skeletons of names: names that a lenient decoder could confuse have the same skeleton.

const noise = /[^\p{L}\p{N}]+/gu

/** Normalising a longer run of marks costs the square of its length (UAX #15, "Stream-Safe Text Format"). */
const piledUpMarks = /(\p{M}{30})\p{M}+/gu

/** Folds case and compatibility variants (Unicode NFKC): `ſ` is s, the Kelvin sign is k, full width is plain. */
export function confusableSkeleton(name: string): string {
  return name.replace(piledUpMarks, '$1').normalize('NFKC').toLowerCase()
}

/** Also drops spaces, punctuation and control characters: `Tools.Call ` is `toolscall`. */
export function methodSkeleton(method: string): string {
  return confusableSkeleton(method).replace(noise, '')
}
